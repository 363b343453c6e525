"""A wire to Postgres that can be cut, and that can swallow answers: what a restart looks like from the proxy."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit, urlunsplit


class Relay:
    """Carries connections to the database of `url`; `self.url` is the way through it. Runs on one event loop."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        #: Answers of the server are thrown away and their connections cut: the outcome of a COMMIT stays unknown.
        self.swallows = False

    @property
    def url(self) -> str:
        credentials = self._target.netloc.rpartition("@")[0]
        return urlunsplit(self._target._replace(netloc=f"{credentials}@127.0.0.1:{self._port}"))

    async def mend(self) -> None:
        """Take connections (again), on the same port."""
        self.swallows = False
        if self._server is not None and self._server.is_serving():
            return
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Drop every connection and take no further one."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers |= {writer, there}
        try:
            await asyncio.gather(self._pump(reader, there, False), self._pump(there_reader, writer, True))
        except OSError:
            pass
        finally:
            for end in (writer, there):
                self._writers.discard(end)
                end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, answers: bool) -> None:
        while data := await source.read(1 << 16):
            if answers and self.swallows:
                raise ConnectionResetError
            target.write(data)
            await target.drain()
        raise ConnectionResetError
