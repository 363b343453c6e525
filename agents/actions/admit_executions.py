"""The agents' half of admitting a group to a batch: advantages, selection, and what is trained of each execution
(docs/algorithms.md §6, §7, §8). `trainers.actions.admit_group` packs the result and owns the transaction.
"""

from dataclasses import dataclass
from typing import Any

from agents import events
from agents.actions.errors import Refused
from agents.core import draws
from agents.core.advantage import advantages
from agents.core.costs import NO_COSTS, costs
from agents.core.fold import Folded, fold
from agents.core.outcome import Outcome
from agents.core.selection import Bounds, Selected, Selection, select
from agents.core.trained import TrainedTrajectory, target_mask
from agents.models import Draw, Execution, Group, Run, SelectionRecord, Trajectory
from agents.recorded import calls_of


@dataclass(frozen=True)
class Terms:
    """What a batch asks of the executions it admits. A token may be older than `version` by `max_staleness`."""

    batch: int
    version: int
    max_staleness: int
    j_max: int


@dataclass(frozen=True)
class Admitted:
    """`num_votes`: the group's share of |E|."""

    num_votes: int
    trajectories: list[TrainedTrajectory]


@dataclass(frozen=True)
class _Chosen:
    """Selection of one execution; `stale` trajectories break the staleness bound and are not trained."""

    execution: Execution
    folded: Folded
    bounds: Bounds
    seed: str
    selection: Selection
    stale: frozenset[int]

    @property
    def kept(self) -> list[Selected]:
        return [t for t in self.selection.trajectories if t.number not in self.stale]

    @property
    def num_targets(self) -> int:
        return sum(trajectory.num_targets for trajectory in self.kept)


def admit_executions(group_id: int, terms: Terms) -> Admitted:
    """Mark a ready group admitted and return what is trained of it. Raises Refused when it is not ready.

    Draws, trajectories, exclusions and advantages are written in the caller's transaction. Advantages are what they are
    now: a later re-assessment or cancellation changes nothing.
    """
    members = Execution.objects.select_for_update(no_key=True).filter(group=group_id).defer("harness_log")
    members = list(members.order_by("pk"))  # before the group: rows are locked in the order execution, group, run
    group = Group.objects.select_for_update(of=("self",), no_key=True).select_related("run").get(pk=group_id)
    if group.state != Group.State.READY or group.kind != Group.Kind.TRAINING:
        raise Refused(
            f"group {group_id} is a {group.state} {group.kind} group; only a ready training group is admitted"
        )
    voters = sorted((e for e in members if Outcome(e.outcome).votes), key=lambda e: e.index)
    rewards = _rewards(group, voters)
    scores = advantages(rewards, group.run.config["advantage"])
    calls = calls_of([execution.pk for execution in voters])
    chosen = [
        _choose(execution, group, fold(call.recorded for call in calls[execution.pk]), terms) for execution in voters
    ]
    for item in chosen:
        item.execution.advantage = scores[item.execution.pk]
        item.execution.exclusions = sorted([call, reason] for call, reason in item.selection.exclusions.items())
    _write(group, chosen, terms)
    return Admitted(len(voters), [trained for item in chosen for trained in _trained(item)])


def selection_bounds(run: Run, j_max: int) -> Bounds:
    return Bounds(j_max, run.config["context_tokens"], tuple(run.config["role_order"]))


def _rewards(group: Group, voters: list[Execution]) -> dict[int, float]:
    """Training rewards by execution, permuted where the run is a control that must not learn.

    A uniform permutation within the group: whatever an execution did, the reward it gets is on average the group's
    mean, so its expected advantage is 0, while the group's statistics stay those of a real run.
    """
    rewards = [float(execution.training_reward) for execution in voters]
    if group.run.config["shuffle_rewards"]:
        order = draws.permutation(f"shuffle/{group.run.seed}/{group.number}", len(rewards))
        rewards = [rewards[other] for other in order]
    return {execution.pk: reward for execution, reward in zip(voters, rewards, strict=True)}


def _choose(execution: Execution, group: Group, folded: Folded, terms: Terms) -> _Chosen:
    seed = draws.selection_seed(group.run.seed, group.number, execution.index, execution.attempt)
    bounds = selection_bounds(group.run, terms.j_max)
    if execution.outcome == Outcome.NO_WORK:
        return _Chosen(execution, folded, bounds, seed, Selection((), (), {}), frozenset())
    selection = select(folded.tree, folded.facts, bounds, seed)
    allowed = range(terms.version - terms.max_staleness, terms.version + 1)
    stale = frozenset(t.number for t in selection.trajectories if not _is_within(folded, t, allowed))
    return _Chosen(execution, folded, bounds, seed, selection, stale)


def _is_within(folded: Folded, trajectory: Selected, allowed: range) -> bool:
    tokens = folded.tree.path_tokens(trajectory.call)
    versions = tokens.versions[target_mask(trajectory.targets, trajectory.num_tokens)]
    return int(versions.min()) >= allowed.start and int(versions.max()) < allowed.stop


def _trained(item: _Chosen) -> list[TrainedTrajectory]:
    weight, advantage = 1 / max(item.num_targets, 1), item.execution.advantage
    return [
        TrainedTrajectory(item.folded.tree.path_tokens(t.call), target_mask(t.targets, t.num_tokens), weight, advantage)
        for t in item.kept
    ]


def _write(group: Group, chosen: list[_Chosen], terms: Terms) -> None:
    Execution.objects.bulk_update([item.execution for item in chosen], ["advantage", "exclusions"])
    SelectionRecord.objects.bulk_create(_selection_record(item, terms.batch) for item in chosen)
    Draw.objects.bulk_create(_draw_rows(chosen))
    Trajectory.objects.bulk_create(_trajectory_rows(chosen, terms.batch))
    group.state, group.batch = Group.State.ADMITTED, terms.batch
    group.save(update_fields=["state", "batch"])
    alarms = [(events.EventKind.ALARM_RAISED, _alarm(item, terms)) for item in chosen if item.stale]
    if alarms:
        events.record_all(group.run_id, alarms)


def _selection_record(item: _Chosen, batch: int) -> SelectionRecord:
    tree, facts = item.folded.tree, item.folded.facts
    kept = [trajectory.number for trajectory in item.kept]
    nothing = item.execution.outcome == Outcome.NO_WORK  # no way of training it has a target
    cost = NO_COSTS if nothing else costs(tree, facts, item.bounds, item.seed, item.selection, kept)
    return SelectionRecord(
        execution=item.execution,
        attempt=item.execution.attempt,
        batch=batch,
        seed=item.seed,
        j_max=item.bounds.j_max,
        context_tokens=item.bounds.context_tokens,
        role_order=list(item.bounds.order),
        num_leaves=cost.num_leaves,
        num_drawn=len(item.selection.draws),
        num_selectable_tokens=cost.num_selectable_tokens,
        num_selected_tokens=cost.num_selected_tokens,
        cost_every_call_tokens=cost.every_call,
        cost_every_leaf_tokens=cost.every_leaf,
        cost_uncapped_tokens=cost.uncapped,
        cost_selected_tokens=cost.selected,
        cost_tree_tokens=cost.tree,
    )


def _draw_rows(chosen: list[_Chosen]) -> list[Draw]:
    return [
        Draw(
            execution=item.execution,
            attempt=item.execution.attempt,
            number=draw.number,
            role=draw.role,
            candidates=[{"call": c.call, "count": c.count, "probability": c.probability} for c in draw.candidates],
            random=draw.random,
            chosen_call=draw.chosen_call,
        )
        for item in chosen
        for draw in item.selection.draws
    ]


def _trajectory_rows(chosen: list[_Chosen], batch: int) -> list[Trajectory]:
    rows = []
    for item in chosen:
        owner: dict[str, Any] = {"execution": item.execution, "attempt": item.execution.attempt}
        if item.execution.outcome == Outcome.NO_WORK:
            rows.append(Trajectory(**owner, number=0, num_tokens=0, num_targets=0, batch=batch))
        for trajectory in item.selection.trajectories:
            rows.append(
                Trajectory(
                    **owner,
                    number=trajectory.number,
                    leaf_call=trajectory.call,
                    role=trajectory.role,
                    num_tokens=trajectory.num_tokens,
                    num_targets=trajectory.num_targets,
                    targets=[list(run) for run in trajectory.targets],
                    batch=None if trajectory.number in item.stale else batch,
                )
            )
    return rows


def _alarm(item: _Chosen, terms: Terms) -> dict[str, Any]:
    number = item.execution.pk
    return {
        "code": "stale_trajectory",
        "severity": "bad",
        "execution": number,
        "trajectories": sorted(item.stale),
        "message": (
            f"Execution {number} has tokens that batch {terms.batch} at version {terms.version} must not train "
            f"(staleness bound {terms.max_staleness}); they were left out. Its burst was dispatched too early."
        ),
    }
