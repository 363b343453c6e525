"""Test support: calls, tree nodes, draws and trajectories of one execution with a believable conversation.

It delegates to two sub-agents at once, compacts its history, and one tool result is hostile text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from agents.core.codec import CallDelta, NodeTokens, encode_call, encode_node
from agents.models import Assessment, Call, Draw, Execution, Node, Trajectory

TOKENIZER = Path(__file__).resolve().parents[2] / "trainers" / "policy" / "quickstart" / "tokenizer.json"

HOSTILE = (
    "total 3\n-rw-r--r-- notes.txt\n<script>alert('x')</script> \x1b[31mred\x1b[0m \u202egnp.exe\x07\n"
    "row <b>7</b> & done"
)

SYSTEM = {"role": "system", "content": "You are an agent. Do the task with tools."}
HELPER = {"role": "system", "content": "You are a helper. Do the job with tools."}


@dataclass
class Planned:
    role: str
    conversation: str
    parent: int | None
    messages: list[dict[str, Any]]
    reply: dict[str, Any]
    start_s: float
    took_s: float
    extra: dict[str, Any] = field(default_factory=dict)


def _bash(command: str, thought: str = "") -> dict[str, Any]:
    return {"content": thought, "tool_calls": [{"id": "call_1", "name": "bash", "arguments": {"command": command}}]}


def _tool(content: str) -> dict[str, Any]:
    return {"role": "tool", "name": "bash", "tool_call_id": "call_1", "content": content}


def _user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _plan() -> list[Planned]:
    task = "Count the lines with the word river in a.txt and in b.txt. Write both numbers to /app/out.txt, one a line."
    two = {
        "content": "Two files: one helper each.",
        "tool_calls": [
            {"id": "call_1", "name": "delegate", "arguments": {"job": "Count river in a.txt"}},
            {"id": "call_2", "name": "delegate", "arguments": {"job": "Count river in b.txt"}},
        ],
    }
    late = {"branch_reason": "retry", "state": Call.State.TRUNCATED, "finish_reason": "", "error": "client left"}
    return [
        Planned("main", "m1", None, [SYSTEM, _user(task)], _bash("ls -l", "Look first."), 0.0, 0.9),
        Planned("main", "m1", 0, [_tool(HOSTILE)], two, 1.1, 1.2),
        Planned("sub-agent", "a1", None, [HELPER, _user("Count river in a.txt")],
                _bash("grep -c river a.txt"), 2.5, 1.0),
        Planned("sub-agent", "a2", None, [HELPER, _user("Count river in b.txt")],
                _bash("grep -c rivr b.txt"), 2.6, 1.3),
        Planned("sub-agent", "a1", 2, [_tool("12")], {"content": "12"}, 3.7, 0.5),
        Planned("sub-agent", "a2", 3, [_tool("0")], _bash("grep -c river b.txt", "A typo."), 4.1, 0.9),
        Planned("sub-agent", "a2", 5, [_tool("7")], {"content": "7"}, 5.2, 0.5),
        Planned("main", "m1", 1, [_tool("12"), _tool("7")], {"content": "12 and"}, 6.0, 0.4, late),
        Planned("main", "m1", 1, [_tool("12"), _tool("7")], _bash("printf '12\\n7\\n' > out.txt"), 6.6, 1.1),
        Planned("main", "m1", 8, [_tool("")], _bash("cat out.txt", "Check it."), 7.9, 0.8),
        Planned("main-summary", "m1", 9, [_tool("12\n7"), _user("Summarize what is left.")],
                {"content": "out.txt holds 12 and 7. Say that it is done."}, 8.9, 0.9),
        Planned("main", "m2", None, [SYSTEM, _user("Continue. out.txt holds 12 and 7. Say that it is done.")],
                {"content": "Done: out.txt holds 12 and 7."}, 10.0, 0.7),
    ]  # fmt: skip


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    if not TOKENIZER.exists():
        return None
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(TOKENIZER))


def encode(text: str) -> list[int]:
    """Ids of the bundled policy's tokenizer, or UTF-8 bytes where it is absent."""
    tokenizer = _tokenizer()
    return list(tokenizer.encode(text, add_special_tokens=False).ids) if tokenizer else list(text.encode())


def _render(message: dict[str, Any]) -> str:
    return f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"


def _render_reply(reply: dict[str, Any]) -> str:
    calls = "".join(
        f"\n<tool_call>\n{call['name']} {call['arguments']}\n</tool_call>" for call in reply.get("tool_calls", ())
    )
    return f"{reply['content']}{calls}<|im_end|>"


def fill_execution(execution: Execution, j_max: int = 5) -> None:
    """Write the calls, the tree and what selection drew; makes the execution's counters agree with them."""
    rng = np.random.default_rng(7)
    started = execution.harness_started_at or execution.launched_at
    assert started is not None
    version = execution.max_version or 0
    calls, nodes, lengths = [], [], []
    for number, plan in enumerate(_plan()):
        prompt = encode("".join(_render(m) for m in plan.messages) + "<|im_start|>assistant\n")
        output = encode(_render_reply(plan.reply))
        prefix = lengths[plan.parent] if plan.parent is not None else 0
        logprobs = -np.abs(rng.gamma(0.5, 0.5, len(output))).astype(np.float32)
        delta = CallDelta(np.array(prompt, np.int32), np.array(output, np.int32), logprobs)
        lengths.append(prefix + len(prompt) + len(output))
        calls.append(_call(execution, number, plan, delta, prefix, started, version))
        nodes.append(_node(execution, number, plan, delta, prefix, version))
    Call.objects.bulk_create(calls)
    Node.objects.bulk_create(nodes)
    _draw(execution, calls, lengths, nodes)
    Assessment.objects.create(
        execution=execution, attempt=execution.attempt, status=Assessment.Status.SCORED, reason_code="scored",
        value=execution.reward, rewards={"reward": execution.reward}, exit_code=0, duration_s=0.41,
        log="check 1 of 2: out.txt exists … ok\ncheck 2 of 2: both numbers … ok\n",
    )  # fmt: skip
    execution.num_calls, execution.num_unique_tokens = len(calls), sum(node.num_tokens for node in nodes)
    execution.num_sampled_tokens = sum(node.num_sampled for node in nodes)
    execution.num_total_tokens = sum(call.input_tokens + call.output_tokens for call in calls)
    execution.harness_log = "reference harness: 12 calls, 0 malformed\n"
    execution.save()


def _call(
    execution: Execution, number: int, plan: Planned, delta: CallDelta, prefix: int, started: Any, version: int
) -> Call:
    size = len(delta.output_ids)
    spans = [[version, 0, size]]
    if number == 9 and version:
        spans = [[version - 1, 0, size // 2], [version, size // 2, size]]
    values: dict[str, Any] = {
        "execution": execution, "attempt": execution.attempt, "number": number, "parent_number": plan.parent,
        "prefix_tokens": prefix, "input_tokens": prefix + len(delta.new_input_ids), "output_tokens": size,
        "tokens": encode_call(delta), "state": Call.State.COMPLETE, "dialect": "openai-chat", "role": plan.role,
        "conversation": plan.conversation, "finish_reason": "tool_calls" if plan.reply.get("tool_calls") else "stop",
        "sampling": {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 56}, "versions": spans,
        "messages": plan.messages, "reply": plan.reply, "model_asked": "policy", "cell": number % 2,
        "cached_tokens": prefix, "started_at": started + timedelta(seconds=plan.start_s), "first_token_s": 0.08,
        "duration_s": plan.took_s,
    }  # fmt: skip
    return Call(**values | plan.extra)


def _node(execution: Execution, number: int, plan: Planned, delta: CallDelta, prefix: int, version: int) -> Node:
    ids = np.concatenate([delta.new_input_ids, delta.output_ids])
    sampled = np.arange(len(ids)) >= len(delta.new_input_ids)
    logprobs = np.zeros(len(ids), np.float32)
    logprobs[sampled] = delta.output_logprobs
    versions = np.where(sampled, version, -1).astype(np.int32)
    samplers = np.where(sampled, number, -1).astype(np.int32)
    return Node(
        execution=execution, attempt=execution.attempt, number=number, parent_number=plan.parent, depth=prefix,
        num_tokens=len(ids), num_sampled=int(sampled.sum()), call_number=number, role=plan.role,
        tokens=encode_node(NodeTokens(ids, sampled, logprobs, versions, samplers)),
    )  # fmt: skip


def _draw(execution: Execution, calls: list[Call], lengths: list[int], nodes: list[Node]) -> None:
    """Main twice, then both sub-agents by chance; the summary ranks below main and is drawn third."""
    picks = [
        ("main", [(9, 0.78), (11, 0.22)], 0.41, 9), ("main", [(11, 1.0)], 0.63, 11),
        ("main-summary", [(10, 1.0)], 0.12, 10), ("sub-agent", [(4, 0.37), (6, 0.63)], 0.58, 6),
        ("sub-agent", [(4, 1.0)], 0.9, 4),
    ]  # fmt: skip
    trained: set[int] = set()
    for number, (role, candidates, random, chosen) in enumerate(picks):
        path = _path(calls, chosen)
        targets = [
            [lengths[n] - nodes[n].num_sampled, lengths[n]] for n in path if n not in trained
        ]  # fmt: skip
        trained |= set(path)
        counts = [{"call": call, "count": nodes[call].num_sampled, "probability": p} for call, p in candidates]
        Draw.objects.create(
            execution=execution, attempt=execution.attempt, number=number, role=role, candidates=counts,
            random=random, chosen_call=chosen,
        )  # fmt: skip
        Trajectory.objects.create(
            execution=execution, attempt=execution.attempt, number=number, leaf_call=chosen, role=role,
            num_tokens=lengths[chosen], num_targets=sum(b - a for a, b in targets), targets=targets,
            batch=execution.group.batch,
        )  # fmt: skip


def _path(calls: list[Call], number: int | None) -> list[int]:
    found: list[int] = []
    while number is not None:
        found.insert(0, number)
        number = calls[number].parent_number
    return found
