"""Unmodified harness programs in sandboxes, before the recording proxy and a scripted engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.config import RunConfig, preset
from agents.executions.evaluate import evaluate_next
from agents.executions.run import run_next
from agents.executions.worker import Worker
from agents.models import Run
from tests.harness.rows import queue, write_task
from tests.harness_programs.checks import examine
from tests.harness_programs.conftest import ALL, SLOW_S, Theatre
from tests.harness_programs.scenes import SCENES
from tests.harness_programs.screenplay import Screenplay
from tests.harness_programs.vocabulary import VOCABULARIES

TASK = "[[MAIN]] Write the word apple to the file a.txt in the current folder."
PROGRAMS = [
    ("mini-swe-agent", ""),
    ("claude-code", ""),
    ("qwen-code", "0.15.10"),
    ("qwen-code", "0.24.4"),
    ("opencode", ""),
    ("codex", ""),
]


def performances() -> Iterator[object]:
    for harness, version in PROGRAMS:
        words = VOCABULARIES[harness]
        for scene in SCENES.values():
            fits = (words.agent is not None or not scene.delegates) and (words.compacts or not scene.compacts)
            if fits and (ALL or harness == "mini-swe-agent"):
                yield pytest.param(
                    harness, version, scene.name, id=f"{harness}{version and f'-{version}'}-{scene.name}"
                )


@pytest.mark.parametrize(("harness", "version", "scene_name"), list(performances()))
def test_a_harness_is_recorded_as_it_is(
    harness: str,
    version: str,
    scene_name: str,
    theatre: Theatre,
    troupe: Worker,
    long_policy: Path,
    tmp_path: Path,
    record_property: object,
) -> None:
    scene, words = SCENES[scene_name], VOCABULARIES[harness]
    context_tokens = words.compaction_tokens if scene.compacts else 1 << 20
    settings = preset("quickstart").model_dump(exclude={"task_set"}) | {
        "harness": harness,
        "harness_version": version,
        "policy_path": str(long_policy),
        "context_tokens": context_tokens,
        "tokens_per_micro_step": context_tokens,
        "max_new_tokens": 2000,
        "harness_timeout_s": 240 + SLOW_S,
        "overall_timeout_s": 280 + SLOW_S,
    }
    tasks = write_task(tmp_path / "tasks", instruction=TASK)
    (execution,) = queue(theatre, tasks, **RunConfig(**settings).model_dump(exclude={"task_set"}))
    play = Screenplay(scene.parts(words, theatre.relay.cut, SLOW_S), words.cues)
    open_engine(theatre, execution.run, play)

    assert run_next(troupe)
    assert evaluate_next(troupe)
    execution.refresh_from_db()
    found = examine(execution, play.takes, context_tokens)
    figures = f"{found.num_calls} calls, {found.unique_tokens // 1000}k of {found.total_tokens // 1000}k"
    record_property("played", (f"{harness} {version}".strip(), scene_name, figures))
    log = execution.harness_log[-3000:]
    assert not play.problems, play.problems
    assert not found.problems, (found.problems, log)
    assert (execution.outcome, execution.reward) == ("complete", 1.0), (execution.reason, log)
    assert execution.num_false_forks == 0
    assert found.num_targets > 0
    for role, least in scene.roles.items():
        assert found.roles[role] >= least, found.roles
    assert found.roles["main"] >= len(scene.parts(words, theatre.relay.cut, 0)["main"]), found.roles
    assert found.roles["auxiliary"] == words.num_auxiliary, found.roles


def open_engine(theatre: Theatre, run: Run, play: Screenplay) -> None:
    """A scripted engine for a million tokens of context, and its cell."""
    engine = theatre.engine(run)
    engine.scripted.script = play
    engine.scripted.context_tokens = 1 << 21
