"""A replay for people: a table of its requests, what was doubtful in it, and a sign of life while it lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from agents.proxy.rendering import Rendering
from agents.proxy.traffic.replay import Replayed, Row

_HEAD = ("seq", "method", "role", "conversation", "parent", "prefix", "branch", "shared", "new")
_RIGHT = {0, 4, 7, 8}
_NAME_CHARS = 28
_SHOWN_CHARS = 60


def table(rows: Sequence[Row]) -> str:
    """One line for each request, with the file and the harness above where they change."""
    cells = [_cells(row) for row in rows]
    widths = [max(len(head), *(len(row[i]) for row in cells)) if cells else len(head) for i, head in enumerate(_HEAD)]
    lines: list[str] = []
    above = ("", "")
    for row, cell in zip(rows, cells, strict=True):
        if (row.file, row.profile) != above:
            above = (row.file, row.profile)
            lines += [f"\n{row.file}: {row.profile} (confidence {row.confidence:.2f})", _aligned(_HEAD, widths)]
        lines.append(_aligned(cell, widths))
    return "\n".join(lines)


def explain(path: Path, found: Replayed, profile: str, rendering: Rendering) -> Iterator[str]:
    """What a person should know besides: doubts about the harness, false forks with the first differing tokens."""
    if found.num_bad_lines:
        yield f"{path}: {found.num_bad_lines} lines could not be read and were left out"
    if not found.rows:
        yield f"{path}: holds no requests"
    if profile == "auto":
        unsure = {(seen.best, seen.confidence): seen for seen in found.detections.values() if not seen.is_sure}
        for seen in unsure.values():
            like = f"likeliest: {seen.best}, {seen.confidence:.2f}" if seen.confidence else "it bears no known mark"
            yield (
                f"{path}: unsure which harness this is ({like}); roles come from the shape of the traffic; "
                "--profile NAME names the harness"
            )
    for row in found.rows:
        if (left := row.departure) is not None:
            recorded, given = (rendering.tokenizer.decode(ids) for ids in (left.recorded_ids, left.given_ids))
            yield (
                f"{path}: request {row.seq} is a false fork: it keeps the turn of request {row.departs_from_seq} but "
                f"leaves its tokens at {left.position}: {_short(recorded)} became {_short(given)}"
            )


class Progress:
    """A line on a terminal that says how far a long replay is."""

    def __init__(self, stream: TextIO, every_s: float = 1.0) -> None:
        self._stream = stream
        self._every_s = every_s
        self._next = time.monotonic() + 2 * every_s
        self._is_open = False

    def __call__(self, path: Path, num_bytes: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        total = max(path.stat().st_size, 1)
        start, end = ("\r", "") if self._stream.isatty() else ("", "\n")
        self._stream.write(f"{start}{path.name}: {num_bytes / total:.0%} of {total / 1e6:.1f} MB{end}")
        self._stream.flush()
        self._is_open = self._stream.isatty()

    def close(self) -> None:
        if self._is_open:
            self._stream.write("\n")
            self._is_open = False


def _cells(row: Row) -> tuple[str, ...]:
    branch = "FALSE FORK" if row.departure is not None else row.branch_reason or ""
    if not branch and not row.prefix_kept and row.repeats is not None:
        branch = f"repeats {row.repeats.seq}"
    return (
        str(row.seq),
        row.method,
        row.role,
        row.conversation if len(row.conversation) <= _NAME_CHARS else f"…{row.conversation[1 - _NAME_CHARS :]}",
        "" if row.parent_seq is None else str(row.parent_seq),
        "kept" if row.prefix_kept else "left",
        branch,
        str(row.shared_tokens),
        str(row.new_tokens),
    )


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [c.rjust(w) if i in _RIGHT else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
    return "  ".join(parts).rstrip()


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")
