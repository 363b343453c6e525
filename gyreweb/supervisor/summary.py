"""The summary of a run as one JSON object: last line of `make up ONCE=1`."""

from dataclasses import asdict, dataclass

from agents import facade as agents
from scheduler import facade as scheduler
from trainers import facade as trainers


@dataclass(frozen=True)
class MicroSteps:
    core: int
    satellite: int


@dataclass(frozen=True)
class Summary:
    """`wall_s` runs from the run's start to its end; `switches` are completed role changes.

    `eval_first` and `eval_last` are mean held-out rewards (None without an evaluation). `executions` and `unresolved`
    leave evaluation out.
    """

    run: int
    seed: int
    steps: int
    eval_first: float | None
    eval_last: float | None
    wall_s: float
    switches: int
    executions: int
    unresolved: int
    false_forks: int
    micro_steps: MicroSteps

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def summarize(run_id: int) -> Summary:
    """Read the summary of a run from the database; sensible at any time, final once the run has ended."""
    run = agents.run(run_id)
    totals = agents.execution_totals(run_id)
    means = scheduler.evaluation_means(run_id)
    done_by = trainers.counted_micro_steps(run_id)
    core = sum(done_by.get(cell.index, 0) for cell in scheduler.cells(run_id) if cell.is_core)
    ended = run.finished_at and run.started_at
    return Summary(
        run=run.pk,
        seed=run.seed,
        steps=run.version,
        eval_first=means[0] if means else None,
        eval_last=means[-1] if means else None,
        wall_s=round((run.finished_at - run.started_at).total_seconds(), 3) if ended else 0.0,
        switches=scheduler.num_finished_role_changes(run_id),
        executions=totals.num_finished,
        unresolved=totals.num_unresolved,
        false_forks=totals.num_false_forks,
        micro_steps=MicroSteps(core=core, satellite=sum(done_by.values()) - core),
    )
