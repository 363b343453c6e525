"""Long polls: `GET /api/v1/runs/{id}?wait=30&until=finished` and `…/events?after=7&wait=30`.

The request is put to the API at once, and its answer is held back while it does not say yet what the client waits for;
then the request is put again. So every answer is the API's own, with all of its checks, and between the two a client
costs neither a thread nor a database connection (docs/cli.md "Waiting over REST").
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from agents.models import Run
from gyreweb.live.waiting import Condition, Watches

#: Longest wait, in seconds: shorter than what proxies between us and a client wait for an answer.
MAX_WAIT_S = 60
#: So many wait at once in one process; whoever comes after them has the answer as it is now.
MAX_WAITING = 2_000
#: So many requests are put to the API at once: all that wait for a run want their answer in the same instant.
MAX_ASKING = 8
_PATH = re.compile(r"^/api/v1/runs/(?P<run>[0-9]{1,18})(?P<events>/events)?$")

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class Question:
    """What a client waits for. `is_answered_by` looks at a body of the API, `holds` at a reading of the run."""

    run_id: int
    seconds: int
    is_answered_by: Callable[[Any], bool]
    holds: Condition


@dataclass
class Reply:
    messages: list[Message] = field(default_factory=list)

    @property
    def body(self) -> Any:
        """The JSON of a success, else None."""
        if not self.messages or self.messages[0].get("status") != 200:
            return None
        return json.loads(b"".join(message.get("body", b"") for message in self.messages[1:]))


class LongPoll:
    """Middleware before the whole of Django: middleware within it would hold a thread for every request."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.watches = Watches()
        self._asking = asyncio.Semaphore(MAX_ASKING)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        question = question_of(scope)
        if question is None:
            await self.application(scope, receive, send)
            return
        left = asyncio.create_task(_until_left(receive))
        try:
            reply = await self._ask(scope, left)
            if self._is_early(reply, question):
                waiting = asyncio.create_task(self.watches.wait(question.run_id, question.holds, question.seconds))
                try:
                    await asyncio.wait({waiting, left}, return_when=asyncio.FIRST_COMPLETED)
                    if left.done():
                        return
                    reply = await self._ask(scope, left)
                except asyncio.CancelledError:
                    pass  # the server stops: what was so when the wait began is still an answer
                finally:
                    waiting.cancel()
            for message in reply.messages:
                await send(message)
        finally:
            left.cancel()

    def _is_early(self, reply: Reply, question: Question) -> bool:
        body = reply.body
        return body is not None and not question.is_answered_by(body) and self.watches.num_waiting < MAX_WAITING

    async def _ask(self, scope: dict[str, Any], left: asyncio.Task[None]) -> Reply:
        reply, requests = Reply(), [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Message:
            if requests:
                return requests.pop()
            await asyncio.shield(left)
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            reply.messages.append(message)

        async with self._asking:
            await self.application(dict(scope), receive, send)
        return reply


def question_of(scope: dict[str, Any]) -> Question | None:
    """None for what is no long poll. What is wrong with its parameters the API says itself."""
    found = _PATH.match(scope["path"]) if scope["method"] == "GET" else None
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"))) if found else {}
    seconds, after = _number(query.get("wait", "")), _number(query.get("after", "0"))
    if found is None or not seconds or seconds > MAX_WAIT_S or after is None:
        return None
    run_id = int(found["run"])
    if found["events"]:
        return Question(run_id, seconds, lambda body: bool(body["results"]), lambda seen: seen.seq > after)
    return Question(run_id, seconds, lambda body: _has_ended(body["state"]), lambda seen: _has_ended(seen.state))


def _has_ended(state: str) -> bool:
    return state not in Run.LIVE_STATES


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


async def _until_left(receive: Receive) -> None:
    """Until the client has left. A GET has no body that matters."""
    while (await receive())["type"] != "http.disconnect":
        pass
