"""Stored numbers that are finite wherever they are read: pages, reports and exports meet no NaN and no infinity."""

from __future__ import annotations

import math
from typing import Any

from django.db import models

#: No figure that Gyre computes comes near it; what lies beyond cannot be summed or drawn.
MAX_FIGURE = 1e15


class Figure(models.FloatField):
    """A float; whatever a row holds that is not finite or is beyond MAX_FIGURE reads as None, which is unknown."""

    def from_db_value(self, value: float | None, *rest: Any) -> float | None:
        return value if value is not None and math.isfinite(value) and abs(value) <= MAX_FIGURE else None

    def deconstruct(self) -> Any:
        """The column is that of a FloatField, and so migrations say."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.FloatField", args, kwargs
