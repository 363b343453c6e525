"""What verifiers rely on is there, in the environment in which nothing planted is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.harness.evaluator.environment import system_first
from agents.harness.evaluator.startup.sitecustomize import script
from agents.harness.sandbox.client import SandboxServer
from tests.harness.rows import write_task
from tests.security.cheats import judged

TEST = """#!/bin/bash
set -e
pwd
python3 main.py
python3 -c 'import sys; sys.path.insert(0, "/app"); import util; print("by path", util.WORD)'
python3 /tests/check.py
tool
echo "$FROM_IMAGE $FROM_VERIFIER"
cp /home/agent/notes ~/copy; cat ~/copy
git log --format=%s
python3 - <<< 'import other; print("as it asks", other.WORD)'
"""
LINES = [
    "/app",
    "main apple",
    "by path apple",
    "check ok",
    "a tool",
    "image verifier",
    "a note",
    "first",
    "as it asks pear",
]


def test_a_verifier_finds_the_tasks_environment_its_own_modules_and_the_work(
    server: SandboxServer, tmp_path: Path
) -> None:
    task = write_task(tmp_path, test=TEST) / "one"
    (task / "task.toml").write_text('[verifier.env]\nFROM_VERIFIER = "verifier"\nPYTHONPATH = "/app/lib"\n')
    (task / "environment" / "tool").write_text("#!/bin/sh\necho a tool\n")
    (task / "environment" / "Dockerfile").write_text(
        'FROM debian\nWORKDIR /app\nENV PATH="/opt/tool/bin:$PATH" FROM_IMAGE=image\n'
        "COPY --chmod=755 tool /opt/tool/bin/\n"
    )
    (task / "tests" / "check.py").write_text("import helper\nprint('check', helper.STATE)\n")
    (task / "tests" / "helper.py").write_text("STATE = 'ok'\n")
    deed = """
        echo 'WORD = "apple"' > util.py; printf 'import util\\nprint("main", util.WORD)\\n' > main.py
        mkdir lib; echo 'WORD = "pear"' > lib/other.py; echo a note > ~/notes
        git init -q .; git add -A; git -c user.name=a -c user.email=a@x commit -qm first"""
    assert judged(server, tmp_path / "home", task, deed).log.splitlines() == LINES


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("main.py -c x", "main.py"),
        ("-B -W error -X dev main.py", "main.py"),
        ("-Werror -Xdev -uB main.py", "main.py"),
        ("-uWerror main.py", "main.py"),
        ("-uW error main.py", "main.py"),
        ("--check-hash-based-pycs always main.py", "main.py"),
        ("-- -main.py", "-main.py"),
        ("-c code", None),
        ("-Bm module main.py", None),
        ("-P main.py", None),
        ("- main.py", None),
        ("", None),
        ("-i", None),
    ],
)
def test_the_script_among_the_words_of_an_interpreter(words: str, found: str | None) -> None:
    assert script(words.split()) == found


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("/opt/bin:/usr/bin:/bin", "/usr/bin:/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/opt/bin"),
        (".:/usr/../opt::/usr/bin:bin", "/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin:/usr/../opt"),
    ],
)
def test_programs_of_the_system_come_before_those_that_an_agent_can_write(search: str, expected: str) -> None:
    assert system_first(search) == expected
