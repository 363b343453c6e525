"""Data of the run chart: waterlevel, lanes, steps and decisions on one time axis; and the reward curve."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from agents.web import runs as run_queries
from gyreweb.pages.facts import RunFacts
from scheduler.web import cells as cell_queries
from scheduler.web import decisions as decision_queries
from trainers.web import batches as batch_queries

WINDOWS = {"5m": 300, "30m": 1800, "2h": 7200, "6h": 21_600, "24h": 86_400, "all": 0}


def window_of(facts: RunFacts, name: str) -> tuple[str, datetime, datetime]:
    """(name, since, until). Without a name: the whole run up to six hours, else the last six."""
    run = facts.run
    until = run.finished_at or facts.now
    begin = run.started_at or run.created_at
    if name not in WINDOWS:
        name = "all" if until - begin <= timedelta(hours=6) else "6h"
    span_s = WINDOWS[name]
    since = max(begin, until - timedelta(seconds=span_s)) if span_s else begin
    return name, since, max(until, since + timedelta(seconds=1))


def water_chart(facts: RunFacts, since: datetime, until: datetime) -> dict[str, Any]:
    """Everything that the run chart draws, times in epoch seconds."""
    run = facts.run
    lanes = cell_queries.lanes(run, facts.cells, since, until)
    decisions = decision_queries.decisions_between(run, since, until)
    sentences = decision_queries.sentences(decisions, facts.cells)
    return {
        "since": since.timestamp(),
        "until": until.timestamp(),
        "live": run.finished_at is None,
        "room_per_cell": int(facts.config["concurrency_per_cell"]),
        "water": run_queries.waterlevel_series(run, since, until),
        "lanes": lane_rows(facts, lanes),
        "steps": [step for step in batch_queries.steps_of(run) if step[0] >= since.timestamp()],
        "evaluations": evaluation_points(facts),
        "decisions": [decision_point(sentence) for sentence in reversed(sentences)],
    }


def lane_rows(facts: RunFacts, lanes: dict[int, list[cell_queries.Span]]) -> list[dict[str, Any]]:
    """The core first."""
    return [
        {"index": cell.index, "name": str(cell), "spans": [span.as_list() for span in lanes.get(cell.index, [])]}
        for cell in facts.cells
    ]


def decision_point(sentence: decision_queries.Sentence) -> list[Any]:
    at = sentence.at.timestamp() if isinstance(sentence.at, datetime) else sentence.at
    return [at, sentence.number, sentence.tone, sentence.head, sentence.why]


def evaluation_points(facts: RunFacts) -> list[list[Any]]:
    """[epoch seconds, version, reward mean]"""
    return [[(e.finished_at or e.created_at).timestamp(), e.version, e.reward_mean] for e in facts.evaluations]


def reward_chart(facts: RunFacts) -> dict[str, Any]:
    """Sampled training reward per step with the spread between groups, and held-out evaluations by version."""
    return {
        "train": [[r.step, r.mean, r.low, r.high] for r in facts.rewards],
        "heldout": [[e.version, e.reward_mean] for e in facts.evaluations],
        "steps": facts.steps,
    }


def live_points(facts: RunFacts, since: datetime) -> dict[str, Any]:
    """What was added to `water_chart` since then: spans are replaced by their start, points appended."""
    run = facts.run
    sentences = decision_queries.sentences(
        decision_queries.decisions_between(run, since, facts.now, limit=50), facts.cells
    )
    return {
        "until": (run.finished_at or facts.now).timestamp(),
        "live": run.finished_at is None,
        "water": run_queries.recent_waterlevel(run, since),
        "lanes": lane_rows(facts, cell_queries.lanes(run, facts.cells, since, facts.now, keep_last=True)),
        "steps": [step for step in batch_queries.steps_of(run) if step[0] >= since.timestamp()],
        "evaluations": evaluation_points(facts),
        "decisions": [decision_point(sentence) for sentence in reversed(sentences)],
    }
