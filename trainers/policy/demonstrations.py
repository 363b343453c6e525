"""Demonstrations of the quickstart tasks: what a hasty agent says, turn by turn, in the reference harness.

The agent does every step right but often stops before the last one; that is what reinforcement learning can mend.
Pure: the random source is passed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from agents.harness.reference import program
from agents.tasksets.kinds import Bash, Delegate, Summary, Task

DONE = "done"
NOTHING_LEFT = "Left: nothing."

Message = dict[str, Any]


@dataclass(frozen=True)
class Dialogue:
    """One conversation with the model, from the system prompt to its last reply."""

    tools: list[Message]
    messages: list[Message]


def demonstrate(task: Task, rng: Random, stop_probability: float) -> Iterator[Dialogue]:
    """The conversations of one execution of `task`, helpers included. After each call that is not the last one the
    agent stops with `stop_probability`; asked for a summary it says with the same chance that nothing is left."""
    dialogue = _main(task.text)
    for step, following in zip(task.steps, (*task.steps[1:], None), strict=True):
        compacts = isinstance(following, Summary)
        if isinstance(step, Bash):
            dialogue.messages.extend(_bash(step))
        elif isinstance(step, Delegate):
            yield _helper(step)
            dialogue.messages.extend(_call("delegate", {"job": step.job}, DONE))
        else:
            summary = step.text if rng.random() >= stop_probability else NOTHING_LEFT
            dialogue.messages.append(_reply(summary))
            yield dialogue
            dialogue = _main(program.CONTINUATION + summary)
            if summary == NOTHING_LEFT:
                break
            continue
        if compacts:
            dialogue.messages.append({"role": "user", "content": program.SUMMARY_QUESTION})
        elif following and rng.random() < stop_probability:
            break
    dialogue.messages.append(_reply(DONE))
    yield dialogue


def _main(request: str) -> Dialogue:
    return Dialogue(program.MAIN_TOOLS, program.opening(program.MAIN_SYSTEM, request))


def _helper(step: Delegate) -> Dialogue:
    calls = [message for call in step.calls for message in _bash(call)]
    opening = program.opening(program.HELPER_SYSTEM, step.job)
    return Dialogue(program.HELPER_TOOLS, [*opening, *calls, _reply(DONE)])


def _bash(step: Bash) -> list[Message]:
    return _call("bash", {"command": step.command}, step.prints)


def _call(name: str, arguments: dict[str, str], output: str) -> list[Message]:
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return [{**_reply(""), "tool_calls": [call]}, {"role": "tool", "content": output}]


def _reply(text: str) -> Message:
    return {"role": "assistant", "content": text}
