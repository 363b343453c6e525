"""How each harness names its tools, and what its requests of other roles look like."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.harness_programs.screenplay import Call, Reply


@dataclass(frozen=True)
class Vocabulary:
    """`agent(name, prompt)`; None where the harness has no sub-agents, likewise the file tools."""

    shell: Callable[[str], Call]
    read: Callable[[str], Call] | None = None
    write: Callable[[str, str], Call] | None = None
    edit: Callable[[str, str, str], Call] | None = None
    agent: Callable[[str, str], Call] | None = None
    #: Replies that wait for sub-agents, where starting them does not.
    gather: Callable[[], list[Reply]] = list
    final: Callable[[], Reply] = lambda: Reply(text="All is done.")
    cues: tuple[tuple[str, str], ...] = ()
    compacts: bool = True
    #: A stream that breaks is not the end of it.
    outlives_break: bool = True
    #: It compacts when it is told that a prompt is too long.
    outlives_overflow: bool = True
    #: Context in the compaction scene, in tokens.
    compaction_tokens: int = 100_000
    #: Context of the policy, which the harness does not know of, in the scene with a prompt too long.
    overflow_tokens: int = 60_000
    #: Auxiliary requests at the start of every execution.
    num_auxiliary: int = 0


def _submit() -> Reply:
    return Reply((Call("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),), "Submitting.")


CLAUDE_CODE = Vocabulary(
    shell=lambda command: Call("Bash", {"command": command, "description": "Run it"}),
    read=lambda path: Call("Read", {"file_path": path}),
    write=lambda path, content: Call("Write", {"file_path": path, "content": content}),
    edit=lambda path, old, new: Call("Edit", {"file_path": path, "old_string": old, "new_string": new}),
    agent=lambda name, prompt: Call(
        "Agent",
        {
            "description": f"task {name}",
            "prompt": prompt,
            "subagent_type": "general-purpose",
            "run_in_background": False,
        },
    ),
    cues=(("summary", "Your task is to create a detailed summary"),),
    overflow_tokens=100_000,
)

QWEN_CODE = Vocabulary(
    shell=lambda command: Call(
        "run_shell_command", {"command": command, "description": "Run it", "is_background": False}
    ),
    read=lambda path: Call("read_file", {"file_path": path}),
    write=lambda path, content: Call("write_file", {"file_path": path, "content": content}),
    edit=lambda path, old, new: Call("edit", {"file_path": path, "old_string": old, "new_string": new}),
    agent=lambda name, prompt: Call(
        "agent", {"description": f"task {name}", "prompt": prompt, "subagent_type": "general-purpose"}
    ),
    cues=(("summary", "You are the component that summarizes"),),
)

OPENCODE = Vocabulary(
    shell=lambda command: Call("bash", {"command": command, "description": "Run it"}),
    read=lambda path: Call("read", {"filePath": path}),
    write=lambda path, content: Call("write", {"filePath": path, "content": content}),
    edit=lambda path, old, new: Call("edit", {"filePath": path, "oldString": old, "newString": new}),
    agent=lambda name, prompt: Call(
        "task", {"description": f"task {name}", "prompt": prompt, "subagent_type": "general"}
    ),
    cues=(
        ("auxiliary", "You are a title generator"),
        ("summary", "You are a context summarization agent"),
    ),
    num_auxiliary=1,
    compaction_tokens=60_000,
)


def _wait_for_agents() -> list[Reply]:
    def calls(prompt: str) -> tuple[Call, ...]:
        agents = list(dict.fromkeys(re.findall(r"agent_id\W+([0-9a-f-]{36})", prompt)))
        return (Call("multi_agent_v1__wait_agent", {"targets": agents, "timeout_ms": 60_000}),)

    return [Reply(calls, "Waiting."), Reply(calls)]


CODEX = Vocabulary(
    shell=lambda command: Call("exec_command", {"cmd": command}),
    agent=lambda name, prompt: Call("multi_agent_v1__spawn_agent", {"message": prompt}),
    gather=_wait_for_agents,
    outlives_overflow=False,
    compaction_tokens=60_000,
    cues=(("summary", "CONTEXT CHECKPOINT COMPACTION"),),
)

MINI_SWE = Vocabulary(
    shell=lambda command: Call("bash", {"command": command}),
    final=_submit,
    compacts=False,
)

#: (harness, version, vocabulary); "" is the version that Gyre was tested with.
PROGRAMS = (
    ("mini-swe-agent", "", MINI_SWE),
    ("claude-code", "", CLAUDE_CODE),
    ("qwen-code", "0.15.10", replace(QWEN_CODE, outlives_break=False)),
    ("qwen-code", "0.24.4", QWEN_CODE),
    ("opencode", "", OPENCODE),
    ("codex", "", CODEX),
)
