"""Unmodified harness programs in sandboxes, before the recording proxy and a scripted engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.executions.worker import Worker
from agents.harness.drivers import DRIVERS
from agents.models import Run
from scheduler.config import RunConfig, preset
from tests.harness.rows import queue, write_task
from tests.harness_programs.checks import examine, transcript
from tests.harness_programs.conftest import ALL, DUMP, SLOW_S, Theatre
from tests.harness_programs.scenes import SCENES, Scene
from tests.harness_programs.screenplay import Screenplay
from tests.harness_programs.vocabulary import PROGRAMS, Vocabulary
from tests.support.work import evaluate_next, run_next

TASK = "[[MAIN]] Write the word apple to the file a.txt in the current folder."
#: What plays without being asked for: nothing is downloaded for it.
CHEAP = ("mini-swe-agent-tools", "mini-swe-agent-broken-stream")


def performances() -> Iterator[object]:
    for harness, version, words in PROGRAMS:
        for scene in SCENES.values():
            fits = (words.agent is not None or not scene.delegates) and (words.compacts or not scene.compacts)
            name = f"{harness}{version and f'-{version}'}-{scene.name}"
            if fits and (ALL or name in CHEAP):
                yield pytest.param(harness, version, words, scene, id=name)


@pytest.mark.parametrize(("harness", "version", "words", "scene"), list(performances()))
def test_a_harness_is_recorded_as_it_is(
    harness: str,
    version: str,
    words: Vocabulary,
    scene: Scene,
    theatre: Theatre,
    troupe: Worker,
    policy_of: Callable[[int], Path],
    tmp_path: Path,
    record_property: object,
) -> None:
    context_tokens = words.compaction_tokens if scene.compacts else 1 << 20
    if scene.surprises:
        context_tokens = words.overflow_tokens
    stated_tokens = 1 << 20 if scene.surprises else context_tokens
    settings = preset("quickstart").model_dump(exclude={"task_set"}) | {
        "harness": harness,
        "harness_version": version,
        "policy_path": str(policy_of(context_tokens)),
        "context_tokens": stated_tokens,
        "tokens_per_micro_step": stated_tokens,
        "max_new_tokens": 2000,
        "harness_timeout_s": 900 + SLOW_S,
        "overall_timeout_s": 960 + SLOW_S,
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
    record_property("played", (f"{harness} {version}".strip(), scene.name, figures))
    if DUMP:
        (Path(DUMP) / f"{harness}-{version}-{scene.name}.txt").write_text(transcript(execution))
    log = execution.harness_log[-3000:]
    assert not play.problems, play.problems
    assert not found.problems, (found.problems, log)
    assert execution.num_false_forks == 0
    assert found.num_targets > 0
    if scene.breaks:
        assert theatre.relay.num_cut > 0
    if (scene.breaks and not words.outlives_break) or (scene.surprises and not words.outlives_overflow):
        assert (execution.outcome, execution.reason_code) == ("partial", "harness_crashed"), (execution.reason, log)
        return
    assert (execution.outcome, execution.reward) == ("complete", 1.0), (execution.reason, log)
    shown = [text in found.results or json.dumps(text)[1:-1] in found.results for text in scene.seen]
    assert all(shown), (scene.seen, found.results[-3000:])
    for role, least in scene.roles.items():
        assert found.roles[role] >= least, found.roles
    least = 2 if scene.shortens else len(scene.parts(words, theatre.relay.cut, 0)["main"])
    assert found.roles["main"] >= least, found.roles
    assert (execution.num_malformed_calls > 0) == scene.shortens
    if scene.is_patient:
        assert len(play.takes) == least + words.num_auxiliary
    assert found.roles["auxiliary"] == words.num_auxiliary, found.roles
    assert execution.harness["version"] == (version or DRIVERS[harness].version)


def open_engine(theatre: Theatre, run: Run, play: Screenplay) -> None:
    """A scripted engine for a million tokens of context, and its cell."""
    engine = theatre.engine(run)
    engine.scripted.script = play
    engine.scripted.context_tokens = 1 << 21
