"""What is kept of an execution's raw requests, within bounds: a harness may send anything beside its conversation."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
import zstandard

from agents.proxy import dialects

#: Bytes, compressed, of one body and of all bodies of one execution attempt.
MAX_CALL_BYTES = 8 * 1024 * 1024
MAX_EXECUTION_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class Archive:
    """The bodies of one execution attempt that are kept: their hashes and what they take."""

    max_call_bytes: int = MAX_CALL_BYTES
    max_execution_bytes: int = MAX_EXECUTION_BYTES
    kept_bytes: int = 0
    _hashes: set[str] = field(default_factory=set)

    def hold(self, request_hash: str, num_bytes: int) -> None:
        """A body that is kept already."""
        if request_hash not in self._hashes:
            self._hashes.add(request_hash)
            self.kept_bytes += num_bytes

    def pack(self, request_hash: str, raw: bytes, packed: bytes, dialect: str) -> tuple[bytes, str]:
        """(the body as the archive keeps it, what is missing of it and why). `packed` is `raw` compressed, if it is.

        Of a body for which there is no room only the fields are kept that its dialect reads, if there is room for them.
        """
        packed = packed or compressed(raw)
        if request_hash in self._hashes:
            return packed, ""
        room, why = min(self.max_call_bytes, self.max_execution_bytes - self.kept_bytes), ""
        if len(packed) > room:
            size = len(packed)
            slim, left_out = without_unread(raw or zstandard.ZstdDecompressor().decompress(packed), dialect)
            packed = compressed(slim) if left_out else packed
            why = f"the body takes {size} bytes compressed and there is room for {max(room, 0)}; "
            if len(packed) > room:
                packed, why = b"", why + "it is not archived"
            else:
                names = ", ".join(name[:40] for name in left_out[:8])
                why += f"it is archived without fields that are not read: {names}"
        self.hold(request_hash, len(packed))
        return packed, why


def without_unread(raw: bytes, dialect: str) -> tuple[bytes, list[str]]:
    """(a body with only the fields that its dialect reads, the names of the others)."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw, []
    read = dialects.BY_NAME[dialect].fields
    if not isinstance(body, dict):
        return raw, []
    return orjson.dumps({name: body[name] for name in body if name in read}), [n for n in body if n not in read]


def compressed(raw: bytes) -> bytes:
    """A raw request as the archive keeps it."""
    return zstandard.ZstdCompressor(level=3).compress(raw)
