"""Writes one call's events to one client, which may be slow and may leave at any time.

See docs/algorithms.md §2.6, §10.
"""

from __future__ import annotations

import asyncio
import logging

from agents.proxy.call import INTERNAL_ERROR
from agents.proxy.dialects.base import MODEL, Dialect, Head
from agents.proxy.http import EVENTS, Receive, Refusal, Send, refuse, respond
from agents.proxy.live import LiveCall
from agents.proxy.replies import Failure, Finish

log = logging.getLogger(__name__)

#: Longest silence on a stream: keep-alives are promised at least every 3 s.
KEEP_ALIVE_S = 2.5


class Answer:
    """One client of a call. A client that is slow holds up nobody but itself: the call's events wait for it."""

    def __init__(self, call: LiveCall, dialect: Dialect, send: Send) -> None:
        self._call, self._dialect, self._send = call, dialect, send
        self._head = Head(f"{dialect.reply_id_prefix}{call.id}", MODEL, call.input_tokens, int(call.created))
        self._id = [(dialect.request_id_header, call.id.encode())]
        self._gone = False
        self._is_silent, self._sent_at = False, 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._encoder = dialect.stream(self._head, call.request)
        self._has_begun = False

    async def give(self, receive: Receive) -> None:
        call = self._call
        reader = call.join()
        watcher = asyncio.create_task(self._watch(receive, reader))
        try:
            await (self._stream(reader) if call.request.stream else self._whole(reader))
            call.acknowledged = not self._gone
        except Exception:
            # The call is on record; its client hears that it must not wait for more.
            log.exception("the answer to call %s of execution %s broke", call.number, call.execution.id)
            await self._break_off(Failure("engine", INTERNAL_ERROR))
        finally:
            call.leave(reader)
            watcher.cancel()
            if self._timer is not None:
                self._timer.cancel()

    async def _break_off(self, failure: Failure) -> None:
        if not self._has_begun:
            return await refuse(self._send, self._dialect, Refusal(failure.kind, failure.message), self._call.id)
        body = self._encoder.event(failure)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def _watch(self, receive: Receive, reader: asyncio.Event) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._call.leave(reader)
        reader.set()

    async def _whole(self, reader: asyncio.Event) -> None:
        while not self._ended():
            await reader.wait()
            reader.clear()
            if self._gone:
                return
        last = self._call.events[-1]
        if isinstance(last, Failure):
            return await self._break_off(last)
        if isinstance(last, Finish):
            whole = self._dialect.whole(self._head, self._call.request, self._call.parser.reply, last)
            self._has_begun = True
            await respond(self._send, 200, whole, self._id)

    async def _stream(self, reader: asyncio.Event) -> None:
        call, encoder, loop, num_sent = self._call, self._encoder, asyncio.get_running_loop(), 0
        self._sent_at = loop.time()
        self._watch_silence(reader)
        while not self._gone:
            events = call.events[num_sent:]
            if not events:
                await reader.wait()
                reader.clear()
                events = call.events[num_sent:]
            if self._gone:
                return
            if not events and not self._is_silent:
                continue
            self._is_silent, self._sent_at = False, loop.time()
            if not self._has_begun:
                if events and isinstance(events[0], Failure):
                    return await self._break_off(events[0])
                self._has_begun = True
                await self._send({"type": "http.response.start", "status": 200, "headers": [*EVENTS, *self._id]})
                await self._send({"type": "http.response.body", "body": encoder.start(), "more_body": True})
            num_sent += len(events)
            ended = bool(events) and isinstance(events[-1], Finish | Failure)
            body = b"".join([encoder.event(event) for event in events]) or self._dialect.keep_alive
            await self._send({"type": "http.response.body", "body": body, "more_body": not ended})
            if ended:
                return

    def _watch_silence(self, reader: asyncio.Event) -> None:
        """Wake the stream when it has said nothing for KEEP_ALIVE_S. One timer in all, not one for every event."""
        loop = asyncio.get_running_loop()
        left = self._sent_at + KEEP_ALIVE_S - loop.time()
        if left <= 0:
            self._is_silent, left = True, KEEP_ALIVE_S
            reader.set()
        self._timer = loop.call_later(left, self._watch_silence, reader)

    def _ended(self) -> bool:
        events = self._call.events
        return bool(events) and isinstance(events[-1], Finish | Failure)
