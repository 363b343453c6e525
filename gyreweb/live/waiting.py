"""Waiting for something to happen to a run: any number of clients wait on one reader, and hold nothing meanwhile.

A reader wakes by the run's doorbell, and by its beat in case a ring was lost. It takes a thread and a database
connection only while it reads two columns of one row.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from agents.models import Run

log = logging.getLogger(__name__)

#: Rings within this time are answered with one reading.
COALESCE_S = 0.25
#: A reading happens at least this often.
BEAT_S = 2.0


@dataclass(frozen=True)
class Seen:
    """What a reading found."""

    seq: int
    state: str


Condition = Callable[[Seen], bool]


class Watches:
    """The readers of one process: one for each run that somebody waits for."""

    def __init__(self) -> None:
        self._by_run: dict[int, _Watch] = {}

    @property
    def num_waiting(self) -> int:
        return sum(watch.num_waiting for watch in self._by_run.values())

    async def wait(self, run_id: int, holds: Condition, seconds: float) -> None:
        """Return when the condition holds, the run is gone, or the time is up."""
        watch = self._by_run.get(run_id)
        if watch is None:
            watch = self._by_run[run_id] = _Watch(run_id)
        watch.num_waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await watch.until(holds)
        except TimeoutError:
            pass
        finally:
            watch.num_waiting -= 1
            if not watch.num_waiting:
                del self._by_run[run_id]
                watch.end()


class _Watch:
    def __init__(self, run_id: int) -> None:
        self.run_id = run_id
        self.num_waiting = 0
        self._doorbell = asyncio.Event()
        self._reading: asyncio.Future[Seen | None] = asyncio.get_running_loop().create_future()
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._read_on())]

    async def until(self, holds: Condition) -> None:
        self._doorbell.set()  # what happened before somebody waited for it
        while (seen := await asyncio.shield(self._reading)) is not None and not holds(seen):
            pass

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _read_on(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._doorbell.wait(), BEAT_S)
            await asyncio.sleep(COALESCE_S)
            self._doorbell.clear()
            try:
                seen = await database_sync_to_async(_read, thread_sensitive=False)(self.run_id)
            except DatabaseError as error:
                log.warning("run %s cannot be read for those who wait for it: %s", self.run_id, error)
                continue
            done, self._reading = self._reading, asyncio.get_running_loop().create_future()
            done.set_result(seen)

    async def _listen(self) -> None:
        """Without a doorbell, the beat alone wakes the reader."""
        layer, group = get_channel_layer(), f"run.{self.run_id}"
        try:
            channel = await layer.new_channel()
            await layer.group_add(group, channel)
            try:
                while True:
                    await layer.receive(channel)
                    self._doorbell.set()
            finally:
                await layer.group_discard(group, channel)
        except (RedisError, OSError, RuntimeError) as error:
            log.warning("the doorbell of run %s cannot be heard: %s", self.run_id, error)


def _read(run_id: int) -> Seen | None:
    row = Run.objects.filter(pk=run_id).values_list("event_seq", "state").first()
    return None if row is None else Seen(*row)
