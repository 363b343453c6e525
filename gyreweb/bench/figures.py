"""What a benchmark returns, and its one-line report."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Self

#: A benchmark returns its figures by name. Progress goes to standard error.
Bench = Callable[[], Mapping[str, "Figure"]]


@dataclass(frozen=True)
class Figure:
    """A measurement. `ratio` is value / baseline, and both are None where there is nothing to compare with."""

    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None

    @classmethod
    def against(cls, value: float, baseline: float, unit: str) -> Self:
        return cls(value, unit, baseline, value / baseline)


def report(name: str, figures: Mapping[str, Figure]) -> str:
    """One JSON object on one line."""
    rounded = {
        key: {field: round(v, 9) if isinstance(v, float) else v for field, v in asdict(figure).items()}
        for key, figure in figures.items()
    }
    return json.dumps({"bench": name, "figures": rounded})
