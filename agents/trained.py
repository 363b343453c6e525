"""What was trained of a run, worked out again from its recorded calls, for the checks of `agents.invariants`."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.core.fold import Folded, fold
from agents.models import Execution, Trajectory
from agents.recorded import calls_of
from agents.replay import replay_draws

Row = dict[str, Any]


@dataclass(frozen=True)
class TrainedPath:
    """An admitted trajectory with the oldest and newest weight version among its targets."""

    execution: int
    number: int
    batch: int
    burst: int
    min_version: int
    max_version: int


def trained_paths(run_id: int) -> Iterator[TrainedPath]:
    """Every admitted trajectory that has targets, from the recorded calls."""
    for execution, folded, trajectories in _admitted(run_id):
        for trajectory in trajectories:
            versions = [version for version, _ in _targets(folded, trajectory)]
            if versions:
                found = min(versions), max(versions)
                yield TrainedPath(execution.pk, trajectory.number, trajectory.batch, execution.group.burst, *found)


def _admitted(run_id: int) -> Iterator[tuple[Execution, Folded, list[Trajectory]]]:
    """Executions with admitted trajectories, each with its tree."""
    executions = Execution.objects.filter(run=run_id, trajectories__batch__isnull=False).distinct()
    for execution in executions.select_related("group", "run").order_by("pk").iterator(chunk_size=200):
        rows = execution.trajectories.filter(batch__isnull=False, attempt=execution.attempt, num_targets__gt=0)
        calls = calls_of([execution.pk])[execution.pk]
        yield execution, fold(call.recorded for call in calls), list(rows.order_by("number"))


def _targets(folded: Folded, trajectory: Trajectory) -> Iterator[tuple[int, tuple[int, int]]]:
    """(weight version, identity in the tree) of each target that can be found; version -1 where nothing was sampled."""
    if trajectory.leaf_call not in folded.tree.ends:
        return
    for node in folded.tree.last_node(trajectory.leaf_call).path():
        for start, end in trajectory.targets:
            for position in range(max(start, node.depth), min(end, node.end)):
                yield int(node.versions[position - node.depth]), (id(node), position)


def targets_trained_twice(run_id: int) -> list[Row]:
    """Executions with tokens that are targets more than once."""
    rows = []
    for execution, folded, trajectories in _admitted(run_id):
        times = Counter(token for t in trajectories for _, token in _targets(folded, t))
        repeated = sorted(position for (_, position), count in times.items() if count > 1)
        if repeated:
            rows.append({"execution": execution.pk, "positions": repeated[:20], "num_tokens": len(repeated)})
    return rows


def targets_not_sampled(run_id: int) -> list[Row]:
    """Admitted trajectories with targets that the policy did not sample."""
    rows = []
    for execution, folded, trajectories in _admitted(run_id):
        for trajectory in trajectories:
            found = np.array([version for version, _ in _targets(folded, trajectory)])
            if len(found) != trajectory.num_targets or (found < 0).any():
                rows.append(
                    {
                        "execution": execution.pk,
                        "trajectory": trajectory.number,
                        "num_targets": trajectory.num_targets,
                        "num_sampled": int((found >= 0).sum()),
                    }
                )
    return rows


def unreproducible_draws(run_id: int) -> list[Row]:
    """Executions whose draws on record do not come out again."""
    executions = Execution.objects.filter(run=run_id, draws__isnull=False).distinct().select_related("group", "run")
    return [
        {"execution": execution.pk, "attempt": execution.attempt}
        for execution in executions.order_by("pk").iterator(chunk_size=200)
        if not replay_draws(execution).agree
    ]
