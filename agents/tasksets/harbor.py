"""Write a quickstart task as a folder in the Harbor task format."""

from __future__ import annotations

import shlex
from pathlib import Path

from agents.tasksets.kinds import Bash, Check, Delegate, Step, Task

TRANSCRIPT = "/logs/agent/transcript.jsonl"

_TASK_TOML = """\
schema_version = "1.4"

[metadata]
kind = "{kind}"
split = "{split}"

[agent]
timeout_sec = 60

[verifier]
timeout_sec = 20

[environment]
network_mode = "no-network"
"""

_TEST_HEAD = """\
#!/bin/bash
# The reward is the share of checks that pass. Only shell builtins: nothing is forked.
cd /app || exit 1
passed=0 checks=0
check() { checks=$((checks + 1)); if "$@"; then passed=$((passed + 1)); fi; }
# The text of a file, without the space around it.
text() { found=; [[ -f $1 && -r $1 ]] && read -r -d '' -n 4096 found < "$1"; }
holds() { text "$1"; [[ $found == "$2" ]]; }
filled() { text "$1"; [[ -n $found ]]; }
"""

_TEST_HELPER = f"""\
# A helper agent, not the main one, ran a command that names the file.
helped() {{
  local line
  [[ -r {TRANSCRIPT} ]] || return 1
  while IFS= read -r line; do
    if [[ $line == '{{"agent": "helper '*" $1"* ]]; then holds "$@"; return; fi
  done < {TRANSCRIPT}
  return 1
}}
"""

_TEST_TAIL = """\
printf '%d.%06d\\n' $((passed / checks)) $((passed * 1000000 / checks % 1000000)) > /logs/verifier/reward.txt
"""


def write_task(task: Task, folder: Path, split: str) -> None:
    """Write task.toml, instruction.md, environment/, tests/ and solution/ below `folder` (must not exist)."""
    environment = folder / "environment"
    environment.mkdir(parents=True)
    (folder / "task.toml").write_text(_TASK_TOML.format(kind=task.kind, split=split))
    (folder / "instruction.md").write_text(task.text + "\n")
    copies = "".join(f"COPY {name} /app/\n" for name in task.files)
    (environment / "Dockerfile").write_text(f"FROM debian:12-slim\nWORKDIR /app\n{copies}")
    for name, text in task.files.items():
        (environment / name).write_text(text)
    _write_script(folder / "tests" / "test.sh", _test_script(task.checks))
    _write_script(folder / "solution" / "solve.sh", _solution_script(task.steps))


def _write_script(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o755)


def _test_script(checks: tuple[Check, ...]) -> str:
    head = _TEST_HEAD + (_TEST_HELPER if any(check.by_helper for check in checks) else "")
    return head + "".join(f"check {_check_command(check)}\n" for check in checks) + _TEST_TAIL


def _check_command(check: Check) -> str:
    if check.text is None:
        return f"filled {check.file}"
    quoted = f"$'{check.text}'".replace("\n", "\\n") if "\n" in check.text else shlex.quote(check.text)
    return f"{'helped' if check.by_helper else 'holds'} {check.file} {quoted}"


def _solution_script(steps: tuple[Step, ...]) -> str:
    lines = ["#!/bin/bash", "set -e", "cd /app"]
    for step in steps:
        if isinstance(step, Bash):
            lines.append(step.command)
        elif isinstance(step, Delegate):
            for call in step.calls:
                lines.append(call.command)
                entry = f'{{"agent": "helper 1", "tool": "bash", "arguments": {{"command": "{call.command}"}}}}'
                lines.append(f"mkdir -p /logs/agent && echo {shlex.quote(entry)} >> {TRANSCRIPT}")
    return "\n".join(lines) + "\n"
