"""Requests for an execution of another proxy: they go on to their owner, so every proxy's address will do.

The owner's address comes from the table of proxies. A harness in its sandbox reaches its owner directly; forwarding is
for addresses behind a load balancer, and for a proxy whose execution has been taken over.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp

from agents.proxy.http import Receive, Refusal, Scope, Send, read_body

#: Marks a request that has been forwarded once; it is never forwarded again.
MARK = b"x-gyre-forwarded"
_HOP_BY_HOP = {b"connection", b"content-length", b"host", b"keep-alive", b"transfer-encoding", b"te", b"upgrade"}


class Elsewhere(Exception):
    """The execution belongs to the proxy at this address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


class Peers:
    """The HTTP client towards other proxies."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        await self._session.close()

    async def forward(
        self, address: str, scope: Scope, receive: Receive, send: Send, reading: AbstractAsyncContextManager[None]
    ) -> None:
        """Raises Refusal when the owner cannot be reached, ConnectionResetError when the client left early.

        The body is read inside `reading`.
        """
        if not address or any(name == MARK for name, _ in scope["headers"]):
            raise Refusal("unavailable", "this execution changes its recording proxy; try again")
        async with reading:
            body = await read_body(receive)
        sending = asyncio.create_task(self._relay(address, scope, body, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    async def _relay(self, address: str, scope: Scope, body: bytes, send: Send) -> None:
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        url = address + (scope["raw_path"] + query).decode("latin-1")
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if name not in _HOP_BY_HOP
        ]
        started = False
        try:
            async with self._session.request(
                scope["method"], url, data=body, headers=[*headers, (MARK.decode(), "1")], allow_redirects=False
            ) as answer:
                answered: list[Any] = [
                    (name.lower(), value) for name, value in answer.raw_headers if name.lower() not in _HOP_BY_HOP
                ]
                await send({"type": "http.response.start", "status": answer.status, "headers": answered})
                started = True
                async for piece in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except (aiohttp.ClientError, OSError) as error:
            if started:
                raise ConnectionResetError from error
            raise Refusal("unavailable", "the recording proxy of this execution does not answer; try again") from error


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
