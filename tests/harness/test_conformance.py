"""The Harbor fixtures give what Harbor gave, but for Gyre's stricter rules (docs/tasks.md "From work to reward")."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.core.outcome import Reason, Status, Verdict
from agents.harness.drivers import DRIVERS
from agents.harness.evaluator import Evaluation, evaluate
from agents.harness.sandbox.base import SandboxError
from agents.harness.sandbox.client import SandboxServer
from agents.harness.taskformat import BadTask
from agents.harness.worksite import Worksite

FIXTURES = Path(__file__).parents[1] / "fixtures" / "harbor-tasks"
RESULTS = json.loads((FIXTURES / "harbor-0.26-results.json").read_text())

#: Refused by name in the local backend.
SEVERAL_STEPS = {"steps", "abort-final", "abort-mean", "crash-second", "tasktimeout"}
#: Harbor calls these valid; the key that is trained is not in them.
WITHOUT_REWARD_KEY = {"multi-key"}
#: In Harbor a process that outlives the agent works on while the verifier runs.
STRICTER = {("leftover", "oracle"): {"reward": 0.0}}
UNRESOLVED = {
    "ValidationError": Reason.REWARD_INVALID,
    "RewardFileEmptyError": Reason.REWARD_INVALID,
    "VerifierOutputParseError": Reason.REWARD_INVALID,
    "RewardFileNotFoundError": Reason.REWARD_MISSING,
    "VerifierTimeoutError": Reason.EVALUATION_TIMEOUT,
    None: Reason.REWARD_KEY_MISSING,
}
#: What a task waits for is shortened here; the fixtures say 10 s.
SHORT_S = 1.0


def play(server: SandboxServer, home: Path, result: dict[str, Any]) -> Verdict:
    task = FIXTURES / result["set"] / result["task"]
    site = Worksite.open(task, "", DRIVERS[result["agent"]], home, home / "executions" / "attempt")
    site.prepare(server)
    server.run(site.harness_spec("", None), SHORT_S if result["task"] == "slowagent" else 60)
    return evaluate(server, site, Evaluation(timeout_s=SHORT_S if result["task"] == "slowtest" else 60))


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: f"{r['set']}-{r['task']}-{r['agent']}")
def test_a_fixture_gives_what_harbor_gave(result: dict[str, Any], server: SandboxServer, tmp_path: Path) -> None:
    name = result["task"]
    if name in SEVERAL_STEPS:
        with pytest.raises(BadTask, match=rf"{name}/task.toml:\d+: steps.0: tasks of several steps"):
            play(server, tmp_path, result)
        return
    if result["exception"] == "HealthcheckError":
        with pytest.raises(SandboxError) as caught:
            play(server, tmp_path, result)
        assert caught.value.code is Reason.SANDBOX_NEVER_HEALTHY
        return
    verdict = play(server, tmp_path, result)
    assert verdict.rewards == STRICTER.get((name, result["agent"]), result["rewards"] or {})
    if result["reward_valid"] and name not in WITHOUT_REWARD_KEY:
        assert (verdict.status, verdict.value) == (Status.SCORED, verdict.rewards["reward"])
    else:
        expected = UNRESOLVED[result["exception"]]
        assert (verdict.status, verdict.reason_code) == (Status.UNRESOLVED, expected), verdict.reason


def test_what_was_planted_in_tests_is_gone_when_the_verifier_starts(server: SandboxServer, tmp_path: Path) -> None:
    verdict = play(server, tmp_path, {"set": "more", "task": "planted", "agent": "oracle"})
    assert verdict.log.splitlines() == ["/logs/verifier:", "test-stdout.txt", "", "/tests:", "test.sh"]


def test_only_artifacts_reach_a_separate_verifier(server: SandboxServer, tmp_path: Path) -> None:
    play(server, tmp_path, {"set": "more", "task": "sep", "agent": "oracle"})
    seen = (tmp_path / "executions" / "attempt" / "verify" / "logs" / "seen.txt").read_text()
    assert seen.split() == ["/app:", "out.txt", "/logs/artifacts:", "p"]
