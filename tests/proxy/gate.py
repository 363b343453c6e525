"""A gate that holds a scripted engine until the test opens it."""

from __future__ import annotations

import asyncio

from tests.proxy.backstage import Backstage, Engine


class Gate:
    """Every token but the first `after` ones waits until `open()`; there is no polling, so thousands may wait."""

    def __init__(self, stage: Backstage, engine: Engine, after: int = 0) -> None:
        self._loop = stage.loop.loop
        self._opened = asyncio.Event()
        self._left = after
        engine.scripted.gate = self._pass

    async def _pass(self) -> None:
        self._left -= 1
        if self._left < 0:
            await self._opened.wait()

    def open(self) -> None:
        self._loop.call_soon_threadsafe(self._opened.set)
