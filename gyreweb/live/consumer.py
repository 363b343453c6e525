"""One live listener of a run: a doorbell wakes it to read the event log; a beat makes up for rings that were lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

from agents.actions.errors import NotFound
from agents.web import access
from agents.web.runs import newest_seq
from gyreweb.live import updates
from gyreweb.pages.fragments import EVERY_PAGE

COALESCE_S = 0.25
BEAT_S = 5.0
#: An update that took t seconds to make is followed by at least this many times t of rest.
REST_FACTOR = 6
MAX_REST_S = 3.0
NOT_FOUND = 4404


class RunConsumer(AsyncJsonWebsocketConsumer):
    """Sends `update`, `reload` and `beat` messages; takes none: changes go over HTTP."""

    async def connect(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        self.run_id: int = self.scope["url_route"]["kwargs"]["run_id"]
        self.page = query.get("page", ["run"])[0]
        since = query.get("since", ["0"])[0]
        self.viewer = await database_sync_to_async(access.viewer_of_user)(self.scope["user"])
        self.worker: asyncio.Task[None] | None = None
        self.doorbell = asyncio.Event()
        await self.accept()
        if self.page not in EVERY_PAGE or not since.isdecimal() or len(since) > 18 or not await self._visible():
            await self.close(NOT_FOUND)
            return
        self.seq = int(since)
        self.read_at = updates.now()
        self.group = f"run.{self.run_id}"
        await self.channel_layer.group_add(self.group, self.channel_name)
        self.doorbell.set()  # what happened between the page and this socket
        self.worker = asyncio.create_task(self._send_updates())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_: Any) -> None:
        """Whatever is sent here, text or bytes, is passed over."""

    async def disconnect(self, code: int) -> None:
        if self.worker is None:
            return
        await self.channel_layer.group_discard(self.group, self.channel_name)
        self.worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.worker

    async def run_event(self, message: dict[str, Any]) -> None:
        """The doorbell: {run, seq}."""
        if message["seq"] > self.seq:
            self.doorbell.set()

    @database_sync_to_async
    def _visible(self) -> bool:
        self.viewer = access.viewer_again(self.viewer)
        try:
            access.run_for(self.viewer, self.run_id)
        except NotFound:
            return False
        return True

    async def _send_updates(self) -> None:
        """Wait for a ring or for the beat's time; then read the log."""
        while True:
            try:
                await asyncio.wait_for(self.doorbell.wait(), BEAT_S)
            except TimeoutError:
                if not await self._visible():
                    await self.close(NOT_FOUND)
                    return
                newest = await database_sync_to_async(newest_seq)(self.run_id)
                await self.send_json({"type": "beat", "seq": newest})
                if newest <= self.seq:
                    continue
            await asyncio.sleep(COALESCE_S)
            self.doorbell.clear()
            started = time.monotonic()
            if not await self._visible():
                await self.close(NOT_FOUND)
                return
            if not await self._send_update():
                return
            await asyncio.sleep(min(MAX_REST_S, REST_FACTOR * (time.monotonic() - started)))

    async def _send_update(self) -> bool:
        read_at = updates.now()
        try:
            message = await database_sync_to_async(updates.updates_after)(
                self.viewer, self.run_id, self.seq, self.page, self.read_at
            )
        except NotFound:
            await self.close(NOT_FOUND)
            return False
        if message is not None:
            self.seq, self.read_at = message["seq"], read_at
            await self.send_json(message)
        return True
