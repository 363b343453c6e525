"""A relay between sandboxes and the proxy that can cut every connection that is open: a broken stream."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from pathlib import Path


class Relay:
    """Serves `place` and carries bytes to and from `target`, both unix sockets, on the running event loop."""

    def __init__(self, place: Path, target: Path) -> None:
        self._place, self._target = place, target
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.num_cut = 0

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._place)

    async def close(self) -> None:
        await self.cut()
        assert self._server is not None
        self._server.close()

    async def cut(self) -> None:
        """End all connections without a word more."""
        for writer in list(self._writers):
            self.num_cut += 1
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_unix_connection(self._target)
        self._writers |= {writer, their_writer}
        try:
            await asyncio.gather(_carry(reader, their_writer), _carry(their_reader, writer))
        finally:
            self._writers -= {writer, their_writer}
            for end in (writer, their_writer):
                end.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
