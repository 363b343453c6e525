"""Bodies that their senders compressed (RFC 9110, content-encoding), unpacked within bounds."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

#: How many codings may lie over one another.
MAX_CODINGS = 4
#: What a zstd frame may ask its reader to remember (RFC 9659).
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024
#: Members of one gzip body. Each costs its reader some microseconds, and an empty one has but 20 bytes.
_MAX_MEMBERS = 1000
_MEMBER = b"\x1f\x8b\x08"


class Undecodable(ValueError):
    """The text says why; `is_large`: it unpacks to more than is taken."""

    def __init__(self, message: str, is_large: bool = False) -> None:
        super().__init__(message)
        self.is_large = is_large


def codings(header: str) -> list[str]:
    """The codings that a header names, in the order in which they were applied; names have no case."""
    names = [name.strip().lower() for name in header.split(",")]
    return [name.removeprefix("x-") for name in names if name not in ("", "identity")]


def decoded(raw: bytes, header: str, limit: int) -> bytes:
    """A body as it was before its codings. None of them may unpack to more than `limit` bytes. Raises Undecodable."""
    applied = codings(header)
    if len(applied) > MAX_CODINGS:
        raise Undecodable(f"content-encoding names {len(applied)} codings; at most {MAX_CODINGS} are undone")
    for name in applied:
        if name not in _READERS:
            raise Undecodable(f"content-encoding {name[:40]} is not understood; known: {', '.join(_READERS)}")
    for name in reversed(applied):
        try:
            raw = _READERS[name](raw, limit)
        except (zlib.error, zstandard.ZstdError, gzip.BadGzipFile, EOFError) as error:
            raise Undecodable(f"the body is not {name}: {error}") from error
    return raw


def _collected(pieces: Iterator[bytes], limit: int) -> bytes:
    found, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            raise Undecodable(f"the body unpacks to over {limit} bytes", is_large=True)
        found.append(piece)
    return b"".join(found)


def _gzip(raw: bytes, limit: int) -> bytes:
    """One member or several, one after the other."""
    if raw.count(_MEMBER) > _MAX_MEMBERS:
        raise Undecodable(f"the body is gzip of over {_MAX_MEMBERS} members")
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
        return _collected(iter(lambda: stream.read(_PIECE_BYTES), b""), limit)


def _deflate(raw: bytes, limit: int) -> bytes:
    """A zlib stream, as the RFC has it, or a bare one, as some senders do."""
    try:
        return _inflated(raw, limit, zlib.MAX_WBITS)
    except zlib.error:
        return _inflated(raw, limit, -zlib.MAX_WBITS)


def _inflated(raw: bytes, limit: int, wbits: int) -> bytes:
    reader = zlib.decompressobj(wbits)
    body = reader.decompress(raw, limit + 1)
    if len(body) > limit:
        raise Undecodable(f"the body unpacks to over {limit} bytes", is_large=True)
    if not reader.eof:
        raise EOFError("it ends too early")
    if reader.unused_data:
        raise zlib.error("something follows its end")
    return body


def _zstd(raw: bytes, limit: int) -> bytes:
    """One frame or several."""
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    with reader.stream_reader(raw, read_across_frames=True) as stream:
        body = _collected(iter(lambda: stream.read(_PIECE_BYTES), b""), limit)
    if raw and not body:
        raise EOFError("it ends too early")
    return body


_READERS: dict[str, Callable[[bytes, int], Any]] = {"gzip": _gzip, "deflate": _deflate, "zstd": _zstd}
