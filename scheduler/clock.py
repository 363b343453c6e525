"""Whether the database's clock runs on as ours does: it may be set, and its machine may have slept.

See docs/reliability.md.
"""

from dataclasses import dataclass

#: Looks are a second apart; statements are slow now and then, clocks are corrected by less.
MAX_SKEW_S = 5.0


@dataclass
class ClockWatch:
    """`monotonic_s` never jumps; `database_s` is the clock that leases and heartbeats go by."""

    _offset_s: float | None = None

    @property
    def has_begun(self) -> bool:
        return self._offset_s is not None

    def jump_s(self, monotonic_s: float, database_s: float) -> float:
        """By how much the database's clock has jumped since the last call; 0.0 when it has not."""
        before_s, self._offset_s = self._offset_s, database_s - monotonic_s
        jump_s = 0.0 if before_s is None else self._offset_s - before_s
        return jump_s if abs(jump_s) > MAX_SKEW_S else 0.0
