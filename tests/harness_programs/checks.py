"""The record of an execution against what the engine really read and said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.core.codec import Int32s, decode_call
from agents.core.roles import DEFAULT_ORDER
from agents.core.selection import Bounds, Selected, select
from agents.models import Call, Execution
from agents.recorded import folded
from tests.harness_programs.screenplay import Take


@dataclass(frozen=True)
class Recorded:
    """A call of the record with its whole input and output."""

    row: Call
    input_ids: Int32s
    output_ids: Int32s

    @property
    def path(self) -> Int32s:
        return np.concatenate([self.input_ids, self.output_ids])


@dataclass(frozen=True)
class Findings:
    """What was wrong (nothing, it is hoped), and figures for the table."""

    problems: tuple[str, ...]
    roles: Counter[str]
    num_calls: int
    total_tokens: int
    unique_tokens: int
    num_targets: int
    #: What tools gave, as the harness told its model.
    results: str


def record_of(execution: Execution) -> list[Recorded]:
    """Calls with their ids put together from the rows alone."""
    by_number: dict[int, Recorded] = {}
    for row in Call.objects.with_tokens().filter(execution=execution, attempt=execution.attempt).order_by("number"):
        delta = decode_call(bytes(row.tokens))
        prefix = by_number[row.parent_number].path[: row.prefix_tokens] if row.parent_number is not None else []
        input_ids = np.concatenate([np.asarray(prefix, np.int32), delta.new_input_ids]).astype(np.int32)
        by_number[row.number] = Recorded(row, input_ids, delta.output_ids)
    return list(by_number.values())


def examine(execution: Execution, takes: Sequence[Take], context_tokens: int) -> Findings:
    """Hold the record of an execution against the engine's."""
    calls = record_of(execution)
    truth = {take.input_ids.tobytes(): take for take in takes}
    problems: list[str] = []
    named: dict[str, set[str]] = {}
    for call in calls:
        take = truth.get(call.input_ids.tobytes())
        where = f"call {call.row.number} ({call.row.role}, {call.row.branch_reason or 'continues'})"
        if take is None:
            problems.append(f"{where}: the engine never read this input")
            continue
        if take.role != call.row.role:
            problems.append(f"{where}: is {take.role} of {take.conversation}, step {take.step}")
        if call.row.false_fork:
            problems.append(f"{where}: false fork")
        if call.row.state == Call.State.COMPLETE and not np.array_equal(call.output_ids, take.output_ids):
            problems.append(f"{where}: the output is not what the engine said")
        if take.role != "auxiliary":
            named.setdefault(call.row.conversation, set()).add(take.conversation)
    problems += [f"conversation {name} holds {sorted(held)}" for name, held in named.items() if len(held) > 1]
    held = Counter(conversation for found in named.values() for conversation in found)
    problems += [f"{name} is split over {count} conversations" for name, count in held.items() if count > 1]

    found = folded(execution)
    problems += [f"call {number} does not fold: {why}" for number, why in found.unusable.items()]
    bounds = Bounds(5, context_tokens, DEFAULT_ORDER)
    selection = select(found.tree, found.facts, bounds, "a seed")
    by_number = {call.row.number: call for call in calls}
    problems += list(trained_wrongly(selection.trajectories, by_number))
    return Findings(
        tuple(problems),
        Counter(call.row.role for call in calls),
        len(calls),
        sum(len(call.path) for call in calls),
        found.tree.num_tokens,
        selection.num_targets,
        "\n".join(
            str(message["content"]) for call in calls for message in call.row.messages if message["role"] == "tool"
        ),
    )


def trained_wrongly(trajectories: Sequence[Selected], calls: dict[int, Recorded]) -> list[str]:
    """Targets that no call sampled, and targets that are trained twice; worked out from the rows without the tree."""
    problems = []
    masks: list[tuple[Int32s, np.ndarray]] = []
    for trajectory in trajectories:
        path = calls[trajectory.call].path
        targets = np.zeros(len(path), bool)
        for start, end in trajectory.targets:
            targets[start:end] = True
        said = np.zeros(len(path), bool)
        for call in calls.values():
            same = _shared(path, call.path)
            if call.row.role != "auxiliary" and same > len(call.input_ids):
                said[len(call.input_ids) : same] = True
        if (targets & ~said).any():
            problems.append(
                f"trajectory of call {trajectory.call} trains {int((targets & ~said).sum())} context tokens"
            )
        for other, taken in masks:
            shared = _shared(path, other)
            if (targets[:shared] & taken[:shared]).any():
                problems.append(f"trajectory of call {trajectory.call} trains tokens a second time")
        masks.append((path, targets))
    return problems


def _shared(one: Int32s, other: Int32s) -> int:
    """Tokens that both begin with."""
    length = min(len(one), len(other))
    differ = np.flatnonzero(one[:length] != other[:length])
    return int(differ[0]) if len(differ) else length


def transcript(execution: Execution) -> str:
    """The record of an execution for people who look for a fault."""
    lines = [f"execution {execution.outcome} {execution.reason}", execution.harness_log, ""]
    for call in record_of(execution):
        row = call.row
        lines.append(
            f"--- call {row.number} of {row.parent_number} {row.role} [{row.conversation}] {row.state} "
            f"{row.branch_reason} prefix {row.prefix_tokens} input {row.input_tokens} output {row.output_tokens} "
            f"{row.error}"
        )
        lines += [f"  {message['role']}: {str(message)[:8000]}" for message in row.messages]
        lines.append(f"  => {row.reply}")
    return "\n".join(lines)
