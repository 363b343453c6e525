"""Token arrays as bytes: what one call adds, and what one tree node holds (docs/algorithms.md §2, §3; docs/proxy.md).

Layout: one byte for the schema, one little-endian uint32 per array for its length, then the planes of every array: of
32-bit items all first bytes, all second bytes, …; of booleans their bits. A plane is one byte that says how it is
kept, and then one repeated byte, the bytes as they are, or a uint32 length and a zstd frame (level 1), whatever is
shortest. Planes differ much (a log-probability's mantissa is noise, the highest byte of an id is nearly always zero),
and short records would pay for one code table over all of them.

Nothing here is pickled, and a decoder never allocates more than the header announces. No bytes at all stand for empty
arrays.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Float32s = NDArray[np.float32]
Bools = NDArray[np.bool_]

#: Largest array that `unpack` accepts, in items.
MAX_ITEMS = 1 << 28

_REPEATED, _PLAIN, _ZSTD = 0, 1, 2
_UINT32 = struct.Struct("<I")

_per_thread = threading.local()


class CorruptTokens(ValueError):
    """Bytes that are not a whole record of the expected schema."""


@dataclass(frozen=True)
class Schema:
    """Identifies a record: `code` is its first byte; `dtypes` are `i4`, `f4` or `?`, one per array."""

    code: int
    dtypes: tuple[str, ...]


CALL = Schema(0x81, ("i4", "i4", "f4"))
NODE = Schema(0x82, ("i4", "?", "f4", "i4", "i4"))


@dataclass(frozen=True)
class CallDelta:
    """What a call adds to its parent's path. With n new input ids and m output ids:

    `new_input_ids` int32[n], `output_ids` int32[m], `output_logprobs` float32[m] (NaN where the engine gave none; such
    a call is quarantined). The call's full input is the first `prefix_tokens` ids of (parent's full input + parent's
    output), then `new_input_ids`.
    """

    new_input_ids: Int32s
    output_ids: Int32s
    output_logprobs: Float32s


@dataclass(frozen=True)
class NodeTokens:
    """The n tokens of one node. Where a token is not sampled its logprob is 0 and its version and sampler are -1.

    `samplers` is the number of the call whose log-probability stands here; it differs from the call that added the node
    where context became sampled later.
    """

    ids: Int32s
    sampled: Bools
    logprobs: Float32s
    versions: Int32s
    samplers: Int32s


def empty_node() -> NodeTokens:
    """A node of no tokens."""
    integers = np.empty(0, np.int32)
    return NodeTokens(integers, np.empty(0, np.bool_), np.empty(0, np.float32), integers, integers)


def encode_call(delta: CallDelta) -> bytes:
    """Raises ValueError when output ids and log-probabilities differ in number."""
    if len(delta.output_ids) != len(delta.output_logprobs):
        raise ValueError(f"{len(delta.output_ids)} output ids with {len(delta.output_logprobs)} log-probabilities")
    return pack(CALL, (delta.new_input_ids, delta.output_ids, delta.output_logprobs))


def decode_call(data: bytes | memoryview) -> CallDelta:
    """Inverse of `encode_call`. Raises CorruptTokens."""
    new_input_ids, output_ids, output_logprobs = unpack(CALL, data)
    if len(output_ids) != len(output_logprobs):
        raise CorruptTokens("output ids and log-probabilities differ in number")
    return CallDelta(new_input_ids, output_ids, output_logprobs)


def encode_node(node: NodeTokens) -> bytes:
    """Stores log-probabilities, versions and samplers of sampled tokens only."""
    if not len(node.ids) == len(node.sampled) == len(node.logprobs) == len(node.versions) == len(node.samplers):
        raise ValueError("the arrays of a node differ in length")
    at = node.sampled
    return pack(NODE, (node.ids, at, node.logprobs[at], node.versions[at], node.samplers[at]))


def decode_node(data: bytes | memoryview) -> NodeTokens:
    """Inverse of `encode_node`. Raises CorruptTokens."""
    ids, sampled, logprobs, versions, samplers = unpack(NODE, data)
    count = int(sampled.sum())
    if len(ids) != len(sampled) or not count == len(logprobs) == len(versions) == len(samplers):
        raise CorruptTokens("the arrays of a node differ in length")
    return NodeTokens(
        ids,
        sampled,
        spread(sampled, logprobs, np.float32(0)),
        spread(sampled, versions, np.int32(-1)),
        spread(sampled, samplers, np.int32(-1)),
    )


def pack(schema: Schema, arrays: Sequence[NDArray[Any]]) -> bytes:
    """Encode 1-D arrays as a record of `schema`; `pack(s, unpack(s, b))` round-trips bit for bit, NaNs included."""
    if len(arrays) != len(schema.dtypes):
        raise ValueError(f"schema {schema.code} has {len(schema.dtypes)} arrays, got {len(arrays)}")
    header = struct.pack(f"<B{len(arrays)}I", schema.code, *(len(array) for array in arrays))
    pieces = [header]
    for array, dtype in zip(arrays, schema.dtypes, strict=True):
        pieces += [_shut(plane) for plane in _to_planes(array, dtype) if plane]
    return b"".join(pieces)


def unpack(schema: Schema, data: bytes | memoryview) -> list[NDArray[Any]]:
    """Decode a record of `schema`. Raises CorruptTokens when the bytes are anything else."""
    if len(data) == 0:
        return [np.empty(0, dtype) for dtype in schema.dtypes]
    head = struct.Struct(f"<B{len(schema.dtypes)}I")
    view = memoryview(data)
    if len(view) < head.size or view[0] != schema.code:
        raise CorruptTokens(f"not a record of schema {schema.code}")
    _, *lengths = head.unpack(view[: head.size])
    if max(lengths) > MAX_ITEMS:
        raise CorruptTokens(f"an array of {max(lengths)} items is over the limit of {MAX_ITEMS}")
    body = _open_planes(view[head.size :], schema, lengths)
    arrays, start = [], 0
    for length, dtype in zip(lengths, schema.dtypes, strict=True):
        size = _size(length, dtype)
        arrays.append(_from_bytes(body[start : start + size], length, dtype))
        start += size
    return arrays


def _open_planes(rest: memoryview, schema: Schema, lengths: Sequence[int]) -> bytes:
    planes, at = [], 0
    for length, dtype in zip(lengths, schema.dtypes, strict=True):
        size = _size(length, dtype) if dtype == "?" else length
        for _ in range((1 if dtype == "?" else 4) if size else 0):
            plane, at = _open(rest, at, size)
            planes.append(plane)
    if at != len(rest):
        raise CorruptTokens("the record goes on after its last plane")
    return b"".join(planes)


def _shut(plane: bytes) -> bytes:
    """One plane of at least one byte in its shortest form."""
    if plane.count(plane[:1]) == len(plane):
        return bytes((_REPEATED, plane[0]))
    frame: bytes = _compressor().compress(plane)
    if len(frame) + _UINT32.size < len(plane):
        return bytes((_ZSTD,)) + _UINT32.pack(len(frame)) + frame
    return bytes((_PLAIN,)) + plane


def _open(rest: memoryview, at: int, size: int) -> tuple[bytes, int]:
    """The plane of `size` bytes that begins at `at`, and where the next one begins."""
    kind, body = (rest[at], at + 1) if at < len(rest) else (-1, at)
    if kind == _REPEATED and body < len(rest):
        return bytes(rest[body : body + 1]) * size, body + 1
    if kind == _PLAIN and len(rest) >= body + size:
        return bytes(rest[body : body + size]), body + size
    if kind != _ZSTD or len(rest) < body + _UINT32.size:
        raise CorruptTokens("a plane is cut off or of an unknown kind")
    [length] = _UINT32.unpack(rest[body : body + _UINT32.size])
    end = body + _UINT32.size + length
    try:
        plane: bytes = _decompressor().decompress(
            rest[body + _UINT32.size : end], max_output_size=size, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise CorruptTokens(str(error)) from error
    if len(plane) != size:
        raise CorruptTokens(f"a plane has {len(plane)} bytes where the header announces {size}")
    return plane, end


def spread(mask: Bools, values: NDArray[Any], fill: np.float32 | np.int32) -> NDArray[Any]:
    """An array of the mask's length with `values` where the mask is True and `fill` elsewhere."""
    array = np.full(len(mask), fill)
    array[mask] = values
    return array


def _size(length: int, dtype: str) -> int:
    return (length + 7) // 8 if dtype == "?" else 4 * length


def _to_planes(array: NDArray[Any], dtype: str) -> list[bytes]:
    if dtype == "?":
        return [np.packbits(np.asarray(array, np.bool_)).tobytes()]
    items = np.ascontiguousarray(array, f"<{dtype}").view(np.uint8).reshape(-1, 4)
    return [items[:, byte].tobytes() for byte in range(4)]


def _from_bytes(data: bytes, length: int, dtype: str) -> NDArray[Any]:
    raw = np.frombuffer(data, np.uint8)
    if dtype == "?":
        return np.unpackbits(raw, count=length).view(np.bool_)
    return np.ascontiguousarray(raw.reshape(4, length).T).view(f"<{dtype}").reshape(length)


def _compressor() -> zstandard.ZstdCompressor:
    """One per thread: a compressor must not be used by two threads at once."""
    found: zstandard.ZstdCompressor | None = getattr(_per_thread, "compressor", None)
    if found is None:
        found = _per_thread.compressor = zstandard.ZstdCompressor(level=1, write_content_size=False)
    return found


def _decompressor() -> zstandard.ZstdDecompressor:
    found: zstandard.ZstdDecompressor | None = getattr(_per_thread, "decompressor", None)
    if found is None:
        found = _per_thread.decompressor = zstandard.ZstdDecompressor()
    return found
