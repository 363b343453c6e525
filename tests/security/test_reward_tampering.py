"""What an agent plants for the verifier of a shared environment gives it no reward."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.core.outcome import Status
from agents.harness.sandbox.client import SandboxServer
from tests.harness.rows import write_task
from tests.security.cheats import PLANTED, WIN, judged, server, tamper

__all__ = ["server"]

FIXTURES = Path(__file__).parents[1] / "fixtures" / "harbor-tasks"

#: Runs most of what verifiers run, and judges a file that no cheat writes.
TEST = """#!/bin/bash
cd /app
python3 -c 'import json, os, random, subprocess, tempfile'
python3 -m json.tool <<< '{}'
python3 <<< 'import json, re'
python3 /tests/check.py
git status; git add -A; git -c user.name=v -c user.email=v@x commit -qm verify; git log -p -1; git checkout -q -B other
touch new; git add new; git diff; git diff --cached; git stash -q; git checkout -q .
bash -lc true; bash -ic true; sh -lc true
env echo; ls -A / ~; cat /dev/null
if [ "$(cat answer.txt)" = apple ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = write_task(tmp_path_factory.mktemp("tasks"), test=TEST) / "one"
    (task / "tests" / "check.py").write_text("import helper, json, random\nassert helper.WORD == 'apple'\n")
    (task / "tests" / "helper.py").write_text("WORD = 'apple'\n")
    (task / "environment" / "Dockerfile").write_text('FROM debian\nWORKDIR /app\nENV PATH="/opt/tool/bin:$PATH"\n')
    return task


@pytest.mark.parametrize("name", PLANTED)
def test_planted_code_does_not_run_in_the_verifier(
    name: str, server: SandboxServer, task: Path, tmp_path: Path
) -> None:
    verdict = judged(server, tmp_path, task, tamper((name,)))
    assert (verdict.status, verdict.rewards) == (Status.SCORED, {"reward": 0.0}), verdict.log


def test_honest_work_is_rewarded_where_cheats_are_not(server: SandboxServer, task: Path, tmp_path: Path) -> None:
    verdict = judged(server, tmp_path, task, "echo apple > answer.txt")
    assert verdict.value == 1.0, verdict.log
    assert "Traceback" not in verdict.log


@pytest.mark.parametrize("fixture", ["single/hello", "single/slowagent", "more/leftover"])
@pytest.mark.parametrize("deed", ["", tamper()], ids=["nop", "cheat"])
def test_the_conformance_tasks_score_zero_for_agents_that_do_not_work(
    fixture: str, deed: str, server: SandboxServer, tmp_path: Path
) -> None:
    verdict = judged(server, tmp_path, FIXTURES / fixture, deed)
    assert (verdict.status, verdict.rewards) == (Status.SCORED, {"reward": 0.0}), verdict.log


def test_a_collect_hook_trusts_no_planted_code_either(server: SandboxServer, task: Path, tmp_path: Path) -> None:
    settings = task.parent / "hooked" / "task.toml"
    write_task(task.parent, name="hooked", test="#!/bin/bash\ncp /app/told /logs/verifier/reward.txt\n")
    settings.write_text("[[verifier.collect]]\ncommand = \"echo 0 > told; python3 -c 'import json'; bash -lc true\"\n")
    deed = "echo \"open('told', 'w').write('1')\" > json.py; echo 'echo 1 > /app/told' > ~/.bash_profile"
    assert judged(server, tmp_path, settings.parent, deed).rewards == {"reward": 0.0}


def test_an_archive_in_place_of_an_artifact_reaches_neither_tests_nor_rewards(
    server: SandboxServer, tmp_path: Path
) -> None:
    task = write_task(tmp_path, test="#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n") / "one"
    (task / "task.toml").write_text('artifacts = ["/app/out"]\n[verifier]\nenvironment_mode = "separate"\n')
    (task / "environment" / "Dockerfile").write_text('FROM debian\nWORKDIR /app\nENV PATH="/opt/bin:$PATH"\n')
    deed = f"""
        mkdir -p /opt/bin out/logs/verifier out/tests; cp /bin/tar out/real
        echo '{{"reward": 1}}' > out/logs/verifier/reward.json
        printf '#!/bin/sh\\n{WIN.replace("'", "")}\\n' > out/tests/test.sh; chmod +x out/tests/test.sh
        printf '#!/bin/sh\\nexec /app/out/real -C /app/out -cf /tests/0.tar logs tests\\n' > /opt/bin/tar
        chmod +x /opt/bin/tar"""
    assert judged(server, tmp_path / "home", task, deed).rewards == {"reward": 0.0}


def test_configuration_left_at_the_top_is_set_aside_and_not_lost(server: SandboxServer, tmp_path: Path) -> None:
    task = write_task(tmp_path, test="#!/bin/bash\nls -A / > /logs/verifier/seen; echo 0 > /logs/verifier/reward.txt\n")
    deed = "touch /conftest.py /pytest.ini; mkdir /node_modules; ln -s /etc/passwd /pyproject.toml; touch /answer.txt"
    judged(server, tmp_path / "home", task / "one", deed)
    attempt = tmp_path / "home" / "executions" / "attempt"
    seen = set((attempt / "verify" / "logs" / "seen").read_text().split())
    names = ("conftest.py", "pytest.ini", "node_modules", "pyproject.toml")
    assert seen & {*names, "answer.txt"} == {"answer.txt"}
    assert {f".left-by-agent-0-{name}" for name in names} <= seen
