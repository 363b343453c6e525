"""Stored numbers that are finite wherever they are read: pages, reports and exports meet no NaN and no infinity."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from django.db import models

#: No figure that Gyre computes comes near it; what lies beyond cannot be summed or drawn.
MAX_FIGURE = 1e15


class Figure(models.FloatField):
    """A float; whatever a row holds that is not finite or is beyond MAX_FIGURE reads as None, which is unknown."""

    if TYPE_CHECKING:  # what a row holds is the number

        def __get__(self, row: Any, owner: Any) -> Any: ...
        def __set__(self, row: Any, value: float | None) -> None: ...

    def from_db_value(self, value: float | None, *rest: Any) -> float | None:
        return value if value is not None and math.isfinite(value) and abs(value) <= MAX_FIGURE else None

    def deconstruct(self) -> Any:
        """The column is that of a FloatField, and so migrations say."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.FloatField", args, kwargs
