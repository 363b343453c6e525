"""Captures of the fixtures, the truth about their requests, and changes that make them traffic never seen."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.proxy.rendering import BUNDLED_POLICY, rendering
from agents.proxy.traffic.replay import Replayed, replay

FIXTURES = Path(__file__).parents[1] / "fixtures" / "traffic"
NAMES = sorted(str(path.relative_to(FIXTURES).with_suffix("")) for path in FIXTURES.glob("*/*.jsonl"))

Lines = list[dict[str, Any]]

#: Roles of requests that the script says nothing of, or something else.
_TOLD_OTHERWISE = {("claude-code/forksub", 4): "sub-agent", ("reference/basic", 8): "main-summary"}


def load(name: str) -> Lines:
    """The lines of a capture; each request says its true role in `truth`."""
    lines = [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_text().split("\n") if line]
    scripts = {line["seq"]: line.get("script") for line in lines if line["kind"] == "response"}
    for line in requests(lines):
        line["truth"] = _truth(name, line, scripts.get(line["seq"]))
    return lines


def requests(lines: Lines) -> Lines:
    return [line for line in lines if line["kind"] == "request"]


def played(lines: Lines, folder: Path, profile: str = "auto") -> Replayed:
    """The replay of these lines."""
    file = folder / "capture.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return replay(file, profile, rendering(BUNDLED_POLICY))


def wrong_roles(lines: Lines, found: Replayed) -> list[tuple[int, str, str]]:
    """(seq, role, true role) where they differ."""
    truths = [line["truth"] for line in requests(lines)]
    assert len(truths) == len(found.rows)
    return [(row.seq, row.role, truth) for row, truth in zip(found.rows, truths, strict=True) if row.role != truth]


def false_forks(found: Replayed) -> list[int]:
    return [row.seq for row in found.rows if row.departure is not None]


def _truth(name: str, line: dict[str, Any], script: str | None) -> str:
    if (name, line["seq"]) in _TOLD_OTHERWISE:
        return _TOLD_OTHERWISE[name, line["seq"]]
    if line["method"] != "POST" or script is None or script.startswith("aux"):
        return "auxiliary"
    conversation = script.removeprefix("compact:").partition("#")[0]
    role = "main" if conversation == "main" else "sub-agent"
    return f"{role}-summary" if script.startswith("compact:") else role


# -- changes ----------------------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"([^<>\"\n]{0,160}?)<(system prompt|vendor text) (\d+) chars, sha256 ([0-9a-f]+)([^>]*)>")


def without_headers(lines: Lines) -> Lines:
    for line in requests(lines):
        line["headers"] = [pair for pair in line["headers"] if pair[0].lower() in ("content-type", "host")]
    return lines


def without_own_metadata(lines: Lines) -> Lines:
    """No header and no field of the body tells the harness or the conversation."""
    for line in requests(without_headers(lines)):
        if isinstance(body := line["body"], dict):
            for name in ("metadata", "client_metadata", "prompt_cache_key"):
                body.pop(name, None)
    return lines


def with_other_prompts(lines: Lines) -> Lines:
    """Every prompt text of a vendor has other words and another length; what was equal stays equal."""

    def other(text: str) -> str:
        return _PLACEHOLDER.sub(
            lambda m: (
                f"{hashlib.md5(m[1].encode()).hexdigest()} <{m[2]} {int(m[3]) + len(m[1])} chars, "
                f"sha256 {hashlib.sha256(m[0].encode()).hexdigest()[:12]}{m[5]}>"
            ),
            text,
        )

    return _mapped(lines, other)


def with_other_tools(lines: Lines) -> Lines:
    """Every tool has another name."""
    for line in lines:
        if line["kind"] == "response":
            _rename(line.get("reply"))
        elif isinstance(line["body"], dict):
            for name in ("messages", "input", "tools", "tool_choice"):
                _rename(line["body"].get(name))
    return lines


def without_responses(lines: Lines) -> Lines:
    return requests(lines)


def second_half(lines: Lines) -> Lines:
    seen = [line["seq"] for line in requests(lines)]
    kept = set(seen[len(seen) // 2 :])
    return [line for line in lines if line["seq"] in kept]


def with_other_ids_and_defaults(lines: Lines) -> Lines:
    """The harness gives tool calls ids of its own in its history, fills in defaults and changes the order of fields."""
    for line in requests(lines):
        if isinstance(line["body"], dict):
            for name in ("messages", "input"):
                _edit_calls(line["body"].get(name))
    return lines


def with_late_responses(lines: Lines) -> Lines:
    """Answers are written down after the request that follows them."""
    out: Lines = []
    waiting: Lines = []
    for line in lines:
        if line["kind"] == "request":
            out.append(line)
        else:
            waiting.append(line)
        if len(waiting) > 1:
            out.append(waiting.pop(0))
    return out + waiting


def with_failures(lines: Lines) -> Lines:
    """Every third model call fails first and comes again as it was."""
    out: Lines = []
    number = count = 0
    numbers: dict[int, int] = {}
    for line in lines:
        if line["kind"] == "request":
            count += 1
            if line["method"] == "POST" and count % 3 == 0:
                number += 1
                out.append({**copy.deepcopy(line), "seq": number})
                out.append({"kind": "response", "seq": number, "status": 529, "reply": None})
            number += 1
            numbers[line["seq"]] = number
        out.append({**line, "seq": numbers[line["seq"]]})
    return out


def interleaved(captures: list[Lines], seed: int = 1) -> Lines:
    """Several executions at addresses of their own, in one capture."""
    left = [list(lines) for lines in captures]
    rng, out, numbers = random.Random(seed), [], dict[tuple[int, int], int]()
    while any(left):
        i = rng.choice([i for i, lines in enumerate(left) if lines])
        line = left[i].pop(0)
        if line["kind"] == "request":
            numbers[i, line["seq"]] = len(numbers) + 1
            line["path"] = f"/run/{i}{line['path']}"
        out.append({**line, "seq": numbers[i, line["seq"]]})
    return out


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    if isinstance(value, dict):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    return value


def _rename(value: Any) -> None:
    if isinstance(value, list):
        for inner in value:
            _rename(inner)
    elif isinstance(value, dict):
        kinds = ("tool_use", "function_call", "custom_tool_call", "function", "custom", "namespace", "tool")
        is_tool = value.get("type") in kinds or {"input_schema", "arguments", "parameters"} & value.keys()
        for name in ("name", "namespace"):
            if is_tool and isinstance(value.get(name), str):
                value[name] = "t" + hashlib.md5(value[name].encode()).hexdigest()[:8]
        for inner in value.values():
            _rename(inner)


def _edit_calls(value: Any) -> None:
    if isinstance(value, list):
        for inner in value:
            _edit_calls(inner)
    elif isinstance(value, dict):
        for name in ("id", "call_id", "tool_use_id", "tool_call_id"):
            if isinstance(value.get(name), str):
                value[name] = "own-" + hashlib.md5(value[name].encode()).hexdigest()[:12]
        if value.get("type") == "tool_use":
            value["input"] = _filled(value["input"])
        if isinstance(value.get("arguments"), str):
            value["arguments"] = json.dumps(_filled(json.loads(value["arguments"])))
        for inner in value.values():
            _edit_calls(inner)


def _filled(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"by_default": False, **dict(reversed(list(arguments.items())))}
