"""A study: which runs it takes, that its results do not depend on who runs them, and what they are summed up to."""

from __future__ import annotations

from statistics import median

import pytest

from scheduler.simulator.scenarios import BadScenario
from scheduler.simulator.studies.many import Finished, run_many
from scheduler.simulator.studies.study import Job, Study
from scheduler.simulator.studies.summary import summarise, t_interval, t_quantile
from tests.simulations.small import small


def test_elastic_runs_as_the_reference_when_it_was_not_asked_for() -> None:
    study = Study.of(small(), ["colocate"], [1, 2])
    assert [(job.policy, job.seed) for job in study.jobs()] == [
        ("elastic", 1), ("colocate", 1), ("elastic", 2), ("colocate", 2),
    ]  # fmt: skip
    assert study.runs_reference
    assert not Study.of(small(), ["colocate", "elastic"], [1]).runs_reference


def test_async_best_tries_every_split_of_every_point() -> None:
    study = Study.of(small(), ["elastic", "async-best"], [1], {"cells": [3, 4]})
    assert [(job.point, job.training_cells) for job in study.jobs() if job.policy == "async-best"] == [
        (0, 1), (0, 2), (1, 1), (1, 2), (1, 3),
    ]  # fmt: skip


def test_a_sweep_is_the_cross_product_of_its_values() -> None:
    study = Study.of(small(), ["elastic"], [1], {"rho_min": [0.2, 0.5], "steps": [4, 8, 12]})
    assert [dict(point.changes) for point in study.points] == [
        {"rho_min": rho, "steps": steps} for rho in (0.2, 0.5) for steps in (4, 8, 12)
    ]
    assert study.points[4].scenario.settings.steps == 8


@pytest.mark.parametrize(
    ("policies", "seeds", "sweep", "why"),
    [
        (["elastik"], [1], {}, "known: elastic"),
        ([], [1], {}, "no policy"),
        (["elastic"], [], {}, "no seed"),
        (["elastic"], [1], {"rho": [1]}, "rho_min"),
        (["elastic"], [1], {"cells": [3, 2]}, "at cells=2: a burst is"),
        (
            ["async-best"],
            [1],
            {"concurrency_per_cell": [48], "cells": [1]},
            "cells=1: async-best needs at least two cells",
        ),
        (
            ["async-barrier", "async-streamed"],
            [1],
            {"concurrency_per_cell": [48], "cells": [2, 1]},
            "cells=1: async-barrier, async-streamed need at least two cells",
        ),
    ],
)
def test_a_study_that_cannot_be_is_refused_with_the_reason(policies, seeds, sweep, why) -> None:
    with pytest.raises(BadScenario, match=why):
        Study.of(small(), policies, seeds, sweep)


def test_one_cell_is_left_out_for_a_policy_that_splits_cells_and_told() -> None:
    roomy = small(concurrency_per_cell=48)
    study, left_out = Study.one_at_a_time(roomy, ["elastic", "async-best"], [1], {"cells": [1, 2]})
    assert [dict(point.changes) for point in study.points] == [{"cells": 2}]
    assert [why.partition(" at least")[0] for why in left_out] == ["at cells=1: async-best needs"]
    study, left_out = Study.one_at_a_time(roomy, ["elastic", "colocate"], [1], {"cells": [1, 2]})
    assert (len(study.points), left_out) == (2, [])


def test_other_processes_give_the_results_of_this_one() -> None:
    study = Study.of(small(), ["elastic", "async-best"], [1, 2])
    here = {item.job: item.result.hours for item in run_many(study)}
    there = {item.job: item.result.hours for item in run_many(study, num_processes=2)}
    assert here == there
    assert len(here) == study.num_jobs == 2 * 3


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_study_stops_when_it_is_told_to_and_tells_its_progress(num_processes: int) -> None:
    study = Study.of(small(), ["elastic", "colocate"], range(1, 40))
    seen: list[tuple[int, int]] = []
    items = run_many(
        study,
        num_processes=num_processes,
        on_progress=lambda done, total: seen.append((done, total)),
        should_stop=lambda: len(seen) >= 3,
    )
    assert len(list(items)) == 3
    assert seen == [(1, 78), (2, 78), (3, 78)]


def test_a_run_that_cannot_go_on_leaves_the_others_alone() -> None:
    study = Study.of(small(unresolved_share=1.0), ["elastic", "colocate"], [1])
    items = list(run_many(study))
    assert [item.result for item in items] == [None, None]
    assert all("void" in item.error for item in items)
    summary = summarise(study, study.points[0], items)
    assert [policy.errors for policy in summary.policies] == [(f"seed 1: {item.error}",) for item in items]
    assert summary.to_json("small")["hours_per_step"] == {}


def test_only_the_first_seed_keeps_series_and_decisions() -> None:
    study = Study.of(small(), ["elastic"], [3, 4], keep_decisions=True)
    first, second = run_many(study)
    for name in ("waterlevel", "lanes", "step_rows", "decisions"):
        assert getattr(first.result, name)
        assert not getattr(second.result, name)


def test_ratios_are_of_medians_and_pair_the_seeds() -> None:
    study = Study.of(small(), ["elastic", "colocate"], [1, 2, 3])
    items = list(run_many(study))
    summary = summarise(study, study.points[0], items)
    hours = {name: [i.result.hours for i in items if i.job.policy == name] for name in study.policies}
    figures = summary.to_json("small")
    assert figures["ratio_to_elastic"] == {
        "elastic": 1.0, "colocate": median(hours["colocate"]) / median(hours["elastic"]),
    }  # fmt: skip
    low, high = figures["ratio_interval_95"]["colocate"]
    ratios = [c / e for c, e in zip(hours["colocate"], hours["elastic"], strict=True)]
    assert low < min(ratios) < max(ratios) < high  # of three seeds the interval is wider than their range
    assert figures["hours_per_step"]["elastic"] == median(hours["elastic"]) / 8


def test_the_best_split_is_the_fastest_by_the_median_and_no_slower_than_half_and_half() -> None:
    study = Study.of(small(cells=4), ["elastic", "async-best", "async-streamed"], [1, 2, 3])
    items = list(run_many(study))
    summary = summarise(study, study.points[0], items)
    best = next(policy for policy in summary.policies if policy.policy == "async-best")
    medians = {split: median(i.result.hours for i in items if i.job.training_cells == split) for split in range(1, 4)}
    assert medians[best.split] == min(medians.values()) == best.hours
    assert best.hours <= next(policy.hours for policy in summary.policies if policy.policy == "async-streamed")
    assert summary.to_json("small")["best_split"] == {"training_cells": best.split, "cells": 4}


def test_an_interrupted_best_split_counts_only_seeds_that_tried_every_split() -> None:
    study = Study.of(small(), ["elastic", "async-best"], [1, 2])
    items = list(run_many(study))
    fastest = min((i for i in items if i.job.training_cells), key=lambda i: i.result.hours)
    cut = [i for i in items if i.job.seed == 1 or (i.job.training_cells or 0) != fastest.job.training_cells]
    summary = summarise(study, study.points[0], cut)
    assert not summary.is_complete
    assert [result.seed for result in summary.policies[1].results] == [1]


def test_execution_hours_are_of_the_first_policy_when_elastic_is_only_the_reference() -> None:
    study = Study.of(small(), ["colocate"], [1])
    items = list(run_many(study))
    figures = summarise(study, study.points[0], items).to_json("small")
    assert figures["execution_h"] == next(i.result.execution_h for i in items if i.job.policy == "colocate")
    assert "only as the reference" in figures["reference"]
    assert set(figures["hours_per_step"]) == {"colocate"}


def test_t_intervals_are_those_of_the_tables() -> None:
    assert t_interval([5.0]) is None
    assert t_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5))
    assert t_quantile(40) == pytest.approx(2.021, abs=5e-4)
    assert t_quantile(120) == pytest.approx(1.980, abs=5e-4)


def test_a_job_is_the_same_alone_as_in_its_study() -> None:
    from scheduler.simulator.studies.many import run_one

    study = Study.of(small(), ["colocate"], [2])
    alone: Finished = run_one(small(), Job(0, "colocate", 2))
    assert alone.result.hours == next(i.result.hours for i in run_many(study) if i.job.policy == "colocate")
