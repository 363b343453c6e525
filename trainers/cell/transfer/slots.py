"""Where satellites write their gradient sums: one registered buffer of the core for each of their live epochs.

The buffer of an epoch that is over goes to a later one, so that memory does not grow with relaunches. Bytes of the old
epoch that land late spoil the sum of the new one: its hash differs, it is refused, and the micro-steps are done again.
"""

from collections.abc import Iterable
from typing import Any

from trainers.cell.transfer.endpoint import Endpoint, Landing

#: (cell index, epoch)
Key = tuple[int, int]


class GradientSlots:
    """`num_bytes` is the size of one cell's gradient buffers."""

    def __init__(self, endpoint: Endpoint, num_bytes: int) -> None:
        self._endpoint = endpoint
        self._num_bytes = num_bytes
        self._slots: dict[Key, Landing] = {}
        self._free: list[Landing] = []

    def find(self, key: Key, use: int) -> Landing | None:
        """The slot that this epoch was given for this use of it."""
        landing = self._slots.get(key)
        return landing if landing is not None and landing.use == use else None

    def provide(self, live: Iterable[Key], failed: Iterable[tuple[int, int, int]]) -> bool:
        """A slot for every live epoch, another buffer after a failed write (index, epoch, use). False: no change."""
        changed = False
        for key in live:
            if key not in self._slots:
                self._slots[key] = self._take()
                changed = True
        for index, epoch, use in failed:
            if (landing := self.find((index, epoch), use)) is not None:
                landing.renew()
                changed = True
        return changed

    def release(self, live: Iterable[Key]) -> None:
        """Take back the slots of all other epochs; none of their sums may be waiting in one."""
        for key in self._slots.keys() - set(live):
            self._free.append(self._slots.pop(key))

    def to_json(self) -> dict[str, Any]:
        """As published in the core's row: `index:epoch` → region and use."""
        return {
            f"{index}:{epoch}": {**landing.region.to_json(), "use": landing.use}
            for (index, epoch), landing in self._slots.items()
        }

    def _take(self) -> Landing:
        if not self._free:
            return Landing(self._endpoint, self._num_bytes)
        landing = self._free.pop()
        landing.use += 1
        return landing
