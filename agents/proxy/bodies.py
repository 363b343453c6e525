"""What a JSON body would become in memory, seen before it is parsed.

A body of 64 MiB can say 20 million values, which take gigabytes as objects and block everything while they are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

#: Values outside texts: objects, lists, numbers, names. A prompt that needs more is longer than every context.
MAX_VALUES = 1_000_000
#: Objects and lists in one another. What is deeper cannot be written again by every part that reads it.
MAX_DEPTH = 128
_PIECE_BYTES = 1 << 20

_MARKS = b'"[]{},'
_OTHERS = bytes(byte for byte in range(256) if byte not in _MARKS)


class TooMuch(ValueError):
    """A JSON text whose value would be too large or too deep; the text tells its sender what to do."""


class TooDeep(TooMuch):
    """It nests more than MAX_DEPTH levels."""


def loads(text: bytes | str) -> Any:
    """The value of a JSON text. Raises TooMuch, and orjson.JSONDecodeError when it is none."""
    raw = text.encode() if isinstance(text, str) else text
    num_open = raw.count(b"[") + raw.count(b"{")
    # Both counts include what stands in texts; only a body that may be over a limit is looked at more closely.
    if num_open > MAX_DEPTH or raw.count(b",") + num_open > MAX_VALUES:
        _check(raw)
    return orjson.loads(raw)


def _check(raw: bytes) -> None:
    """Count values and depth outside texts. Raises TooMuch."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # what is left of quotes begins and ends texts
    marks = raw.translate(None, _OTHERS)
    is_text, depth, values = False, 0, 0
    for start in range(0, len(marks), _PIECE_BYTES):
        piece = np.frombuffer(marks, np.uint8, min(_PIECE_BYTES, len(marks) - start), start)
        inside = (np.cumsum(piece == ord('"')) & 1).astype(bool) ^ is_text
        is_text = bool(inside[-1])
        outside = piece[~inside]
        opens, closes = (outside | 0x20) == ord("{"), (outside | 0x20) == ord("}")  # and "[" and "]"
        values += int(np.count_nonzero(opens)) + int(np.count_nonzero(outside == ord(",")))
        if values > MAX_VALUES:
            raise TooMuch(f"the JSON holds over {MAX_VALUES} JSON values outside texts; send fewer")
        levels = depth + np.cumsum(opens.astype(np.int64) - closes.astype(np.int64))
        if len(levels):
            depth = int(levels[-1])
            if int(levels.max()) > MAX_DEPTH:
                raise TooDeep(f"the JSON nests objects and lists over {MAX_DEPTH} deep; nest them less")
