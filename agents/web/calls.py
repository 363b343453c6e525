"""Calls of one execution: facts for outline and timeline, and the transcript of a path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.config import AgentSettings
from agents.models import Call, Execution, Group
from agents.web.executions import draws, selection_record, trajectories
from agents.web.outline import CallFact, Selection

TRANSCRIPT_CALLS = 30
ROLES = ("system", "user", "assistant", "tool", "tools", "developer")


@dataclass(frozen=True)
class Message:
    """One message of the transcript. `trained` is None for context, else whether the policy's tokens are targets."""

    role: str
    name: str
    text: str
    reasoning: str
    tool_calls: list[dict[str, Any]]
    call: int
    own: bool
    from_policy: bool
    num_tokens: int = 0

    @property
    def style(self) -> str:
        """A class name of ours, whatever the harness called the role."""
        return "policy" if self.from_policy else self.role if self.role in ROLES else "other"


def facts_of(execution: Execution) -> list[CallFact]:
    """One light query: no texts, no tokens."""
    fields = [
        "number", "parent_number", "role", "conversation", "state", "prefix_tokens", "input_tokens", "output_tokens",
        "branch_reason",
    ]  # fmt: skip
    rows = Call.objects.filter(execution=execution, attempt=execution.attempt).order_by("number")
    return [CallFact(*row) for row in rows.values_list(*fields)]


def timeline_of(execution: Execution) -> list[list[Any]]:
    """[number, lane, role, start, seconds, held seconds, state, cell] per call; start in seconds from the first."""
    rows = Call.objects.filter(execution=execution, attempt=execution.attempt).order_by("number")
    fields = ("number", "conversation", "role", "started_at", "duration_s", "held_s", "state", "cell")
    found = list(rows.values_list(*fields))
    if not found:
        return []
    zero = min(row[3] for row in found)
    return [
        [number, conversation, role, round((at - zero).total_seconds(), 3), duration, held, state, cell]
        for number, conversation, role, at, duration, held, state, cell in found
    ]


def call_of(execution: Execution, number: int) -> Call | None:
    return Call.objects.filter(execution=execution, attempt=execution.attempt, number=number).first()


def calls_on(execution: Execution, numbers: list[int]) -> list[Call]:
    rows = Call.objects.filter(execution=execution, attempt=execution.attempt, number__in=numbers)
    return list(rows.order_by("number"))


def selection_of(execution: Execution) -> Selection:
    """What selection did with it (docs/algorithms.md §7), for the outline's reasons."""
    config, record = AgentSettings.readable(execution.run.config), selection_record(execution)
    rows = trajectories(execution)
    return Selection(
        record=record,
        draws=draws(execution),
        targets={row.number: row.num_targets for row in rows},
        j_max=record.j_max if record else int(config["j_max"]),
        context_tokens=record.context_tokens if record else int(config["context_tokens"]),
        voted=execution.reward is not None or execution.state != Execution.State.FINISHED,
        trained=execution.group.kind == Group.Kind.TRAINING,
        admitted=bool(rows) or record is not None,
        exclusions=dict(execution.exclusions),
    )


def transcript(calls: list[Call], selected: int) -> list[Message]:
    """Messages of these calls in order: what each call added, then the policy's reply."""
    found: list[Message] = []
    for call in calls:
        own = call.number == selected
        found += [_context(message, call.number, own) for message in call.messages]
        if call.reply or call.error:
            found.append(_reply(call, own))
    return found


def _context(message: dict[str, Any], number: int, own: bool) -> Message:
    role = str(message.get("role", "unknown"))
    if role == "tools":
        names = ", ".join(_tool_name(tool) for tool in message.get("tools", ()))
        return Message("tools", "", f"offered: {names}", "", [], number, own, False)
    calls = [_tool_call(call) for call in message.get("tool_calls") or ()]
    reasoning = _text(message.get("reasoning_content") or message.get("reasoning") or "")
    return Message(
        role, str(message.get("name", "")), _text(message.get("content")), reasoning, calls, number, own, False
    )


def _reply(call: Call, own: bool) -> Message:
    reply = call.reply or {}
    calls = [_tool_call(tool) for tool in reply.get("tool_calls") or ()]
    text = _text(reply.get("content"))
    return Message(
        "policy", call.error[:200] if call.error else "", text, _text(reply.get("reasoning")), calls, call.number, own,
        True, call.output_tokens,
    )  # fmt: skip


def _text(content: Any) -> str:
    """Content of a message as text; parts of other kinds are named, not dropped."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return str(content)


def _part(part: Any) -> str:
    if isinstance(part, dict):
        return str(part.get("text") or part.get("content") or f"[{part.get('type', 'part')}]")
    return str(part)


def _tool_name(tool: Any) -> str:
    if not isinstance(tool, dict):
        return str(tool)
    function = tool.get("function")
    return str((function if isinstance(function, dict) else tool).get("name", "?"))


def _tool_call(call: Any) -> dict[str, Any]:
    """{name, arguments}: arguments as one readable text."""
    if not isinstance(call, dict):
        return {"name": "?", "arguments": str(call)}
    inner = call.get("function")
    function = inner if isinstance(inner, dict) else call
    arguments = function.get("arguments", "")
    if isinstance(arguments, dict):
        arguments = "\n".join(f"{key}: {value}" for key, value in arguments.items())
    return {"name": str(function.get("name", "?")), "arguments": str(arguments)}
