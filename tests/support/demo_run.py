"""Test support: a run with realistic rows, for tests of pages, REST and push and for pictures of them.

The rows come out of a small made-up schedule, not out of a real run. Everything derives from `seed`.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from agents import events
from agents.models import Execution, Group, Project, Run, RunEvent, Task, TaskSet
from scheduler import config as run_config
from scheduler.models import Burst, Cell, Decision, Evaluation, Override, RoleChange
from tests.support.demo_execution import fill_execution
from trainers.models import Batch, Checkpoint, HandIn, MicroStep, WeightVersion

KINDS = ("count-lines", "delegate-two", "edit-file", "find-word", "fix-script", "long-history", "rename", "sort-rows")


@dataclass
class Shape:
    """Size of the demo. The defaults look like `quickstart` on four cells."""

    cells: int = 4
    concurrency: int = 32
    groups_per_batch: int = 8
    executions_per_group: int = 8
    burst_batches: int = 2
    steps: int = 20
    bursts: int = 4
    mean_s: float = 34.0
    state: str = Run.State.RUNNING
    age: timedelta = timedelta(0)
    #: Stop the made-up clock this share of the way through the last burst.
    stop_at: float = 0.62


@dataclass
class Demo:
    run: Run
    project: Project
    shape: Shape
    rng: random.Random
    started: datetime
    at: float = 0.0  # seconds since `started`
    groups: list[Group] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    changes: list[RoleChange] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    log: list[tuple[datetime, str, dict[str, Any]]] = field(default_factory=list)

    def when(self, seconds: float) -> datetime:
        return self.started + timedelta(seconds=seconds)


def demo_project(slug: str = "default") -> Project:
    return Project.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def demo_task_set() -> TaskSet:
    task_set, made = TaskSet.objects.get_or_create(name="quickstart", digest="demo", defaults={"path": "/demo"})
    if made:
        Task.objects.bulk_create(
            Task(
                task_set=task_set,
                name=f"{split[0]}{i:04d}-{KINDS[i % 8]}",
                split=split,
                kind=KINDS[i % 8],
                path=f"/demo/{split}/{i}",
                digest="demo",
                config={},
            )
            for split, count in (("train", 64), ("heldout", 16))
            for i in range(count)
        )
    return task_set


def demo_run(
    *, project: Project | None = None, name: str = "quickstart", seed: int = 1, shape: Shape | None = None
) -> Run:
    """Make the run and all of its rows. Its last instant is now (minus `shape.age`)."""
    shape = shape or Shape()
    project = project or demo_project()
    rng = random.Random(seed)
    config = run_config.preset(
        "quickstart",
        cells=shape.cells,
        concurrency_per_cell=shape.concurrency,
        groups_per_batch=shape.groups_per_batch,
        executions_per_group=shape.executions_per_group,
        steps=shape.steps,
        seed=seed,
    )
    run = Run.objects.create(
        project=project, task_set=demo_task_set(), name=name, preset="quickstart", state=shape.state, seed=seed,
        config=config.model_dump(mode="json"), policy_kind=config.policy_kind,
    )  # fmt: skip
    demo = Demo(run, project, shape, rng, timezone.now())
    demo.cells = [Cell(run=run, index=i, is_core=i == 0, epoch=1) for i in range(shape.cells)]
    Cell.objects.bulk_create(demo.cells)
    _evaluate(demo, version=0)
    for number in range(shape.bursts):
        _burst(demo, number, last=number == shape.bursts - 1)
    _save(demo)
    return run


def _evaluate(demo: Demo, version: int) -> None:
    mean = 0.18 + 0.62 * (1 - pow(0.86, version)) + demo.rng.uniform(-0.02, 0.02)
    number = Evaluation.objects.filter(run=demo.run).count() + 1
    evaluation = Evaluation.objects.create(
        run=demo.run, number=number, version=version, state=Evaluation.State.FINISHED, num_tasks=64, num_scored=64,
        reward_mean=round(mean, 4), by_kind={kind: round(mean + demo.rng.uniform(-0.1, 0.1), 3) for kind in KINDS},
    )  # fmt: skip
    evaluation.created_at, evaluation.finished_at = demo.when(demo.at), demo.when(demo.at + 9)
    evaluation.save()
    done = {"number": number, "version": version, "reward_mean": evaluation.reward_mean}
    demo.log.append((evaluation.finished_at, events.EventKind.EVALUATION_FINISHED, done))
    demo.at += 10


def _burst(demo: Demo, number: int, last: bool) -> None:
    """Dispatch S·B groups, let them finish, let cells leave as the level falls, step S times, bring the cells back."""
    shape, rng, start = demo.shape, demo.rng, demo.at
    version = len(demo.batches)
    Burst.objects.create(
        run=demo.run, number=number, version=version, num_groups=shape.burst_batches * shape.groups_per_batch,
        groups_per_batch=shape.groups_per_batch, executions_per_group=shape.executions_per_group, max_staleness=1,
    )  # fmt: skip
    tasks = list(Task.objects.filter(task_set=demo.run.task_set, split="train").order_by("name"))
    fresh: list[tuple[Group, list[float]]] = []
    for _ in range(shape.burst_batches * shape.groups_per_batch):
        index = len(demo.groups)
        group = Group(
            run=demo.run, task=tasks[index % len(tasks)], number=index, burst=number, created_at=demo.when(start)
        )
        demo.groups.append(group)
        ends = [start + min(rng.lognormvariate(0, 0.55) * shape.mean_s, 96) for _ in range(shape.executions_per_group)]
        fresh.append((group, ends))
    text = f"{len(fresh)} groups, {len(fresh) * shape.executions_per_group} executions, at weight version {version}"
    _decide(demo, start, "dispatch_burst", None, True, f"dispatches burst {number}: {text}", {"burst": number})
    stop = start + shape.stop_at * 96 if last else float("inf")
    ends = sorted(end for _, row in fresh for end in row)
    away = _leave(demo, ends, start, stop, version)
    _fill_groups(demo, fresh, stop, version)
    if last:
        demo.at = stop
        return
    at = max(away.values(), default=start)
    ready = sorted(max(row) for _, row in fresh)
    for batch in range(shape.burst_batches):
        enough = ready[(batch + 1) * shape.groups_per_batch - 1]
        at = max(at + rng.uniform(5, 8), enough + 1.5)
        _step(
            demo, at, version + batch, number, away, fresh[batch * shape.groups_per_batch :][: shape.groups_per_batch]
        )
    for index in reversed(list(away)):
        at += 0.6
        change = _change(demo, index, "training", "rollout", at, [["hand-in", 0.18], ["load", 0.74], ["verify", 0.11]])
        head = f"{_who(index)} returns to rollout: batch {version + shape.burst_batches} is sealed and fully claimed"
        _decide(demo, at, "return_to_rollout", index, True, head, {"to_role": "rollout"})
        demo.at = max(demo.at, (change.finished_at or change.started_at).timestamp() - demo.started.timestamp())
    demo.at += 0.8
    if len(demo.batches) % 4 == 0:
        _evaluate(demo, len(demo.batches))


def _leave(demo: Demo, ends: list[float], start: float, stop: float, version: int) -> dict[int, float]:
    """Cells leave, the core first, when those that stay hold all that is owed (docs/algorithms.md §9)."""
    shape, away, rollout = demo.shape, {}, demo.shape.cells
    order = list(range(shape.cells))
    refused = False
    for number, end in enumerate(ends, start=1):
        owed = len(ends) - number
        ready = min(2 * shape.groups_per_batch, int(shape.groups_per_batch * 2.2 * (number / len(ends)) ** 2.4))
        if end > stop or not order:
            break
        room = (rollout - 1) * shape.concurrency
        if owed <= room and ready < 2 and not refused:
            refused = True
            why = (
                f"{_who(order[0])} stays in rollout: {ready} of {shape.groups_per_batch} groups ready, 2 needed; "
                f"{rollout - 1} x {shape.concurrency} >= W {owed}"
            )
            _decide(demo, end, "leave_rollout", order[0], False, why, {"to_role": "training"})
        if owed <= room and ready >= 2 and (rollout > 1 or owed == 0):
            index = order.pop(0)
            phases = [["drain", demo.rng.uniform(0.4, 2.2)], ["release", 0.1]]
            phases += [] if index == 0 else [["pull", demo.rng.uniform(0.2, 0.5)]]
            why = (
                f"{_who(index)} leaves rollout: {ready} groups ready for 1.0 s, 2 needed; "
                f"{rollout - 1} x {shape.concurrency} >= W {owed}"
            )
            _decide(demo, end, "leave_rollout", index, True, why, {"to_role": "training"})
            change = _change(demo, index, "rollout", "training", end, phases)
            away[index] = change.finished_at.timestamp() - demo.started.timestamp() if change.finished_at else end
            rollout -= 1
    if len(order) == 1:
        why = f"{_who(order[0])} stays in rollout: a switch costs 1.9 s, 1.2 s of work is left in the batch"
        _decide(
            demo,
            ends[-1] if ends[-1] < stop else stop - 2,
            "leave_rollout",
            order[0],
            False,
            why,
            {"to_role": "training"},
        )
    return away


def _who(index: int) -> str:
    return "the core" if index == 0 else f"cell {index}"


def _fill_groups(demo: Demo, fresh: list[tuple[Group, list[float]]], stop: float, version: int) -> None:
    rng, order = demo.rng, 0
    for group, ends in sorted(fresh, key=lambda item: max(item[1])):
        skill = 0.2 + 0.58 * (1 - pow(0.87, version)) + rng.uniform(-0.22, 0.22)
        rewards: list[float] = []
        for index, end in enumerate(ends):
            execution = _execution(demo, group, index, end, stop, version, skill)
            if execution.reward is not None:
                rewards.append(execution.reward)
        if max(ends) <= stop:
            group.state, group.num_votes, group.ready_order = Group.State.READY, len(rewards), order
            group.ready_at = demo.when(max(ends))
            group.reward_mean = sum(rewards) / len(rewards)
            group.reward_std = (sum((r - group.reward_mean) ** 2 for r in rewards) / max(len(rewards) - 1, 1)) ** 0.5
            order += 1


def _execution(demo: Demo, group: Group, index: int, end: float, stop: float, version: int, skill: float) -> Execution:
    rng = demo.rng
    start = (group.created_at.timestamp() - demo.started.timestamp()) + rng.uniform(0.1, 1.5)
    calls, sampled = rng.randint(3, 9), rng.randint(40, 150)
    row = Execution(
        run=demo.run, group=group, index=index, state=Execution.State.RUNNING, num_calls=calls,
        queued_at=demo.when(start), launched_at=demo.when(start + 0.3), harness_started_at=demo.when(start + 0.5),
        num_sampled_tokens=sampled, num_unique_tokens=sampled + rng.randint(200, 420),
        num_total_tokens=calls * rng.randint(260, 520), min_version=version, max_version=version,
    )  # fmt: skip
    if end <= stop:
        luck = rng.random()
        row.state, row.finished_at = Execution.State.FINISHED, demo.when(end)
        row.harness_ended_at = demo.when(end - 0.4)
        if luck < 0.006:
            row.outcome, row.reason_code = Execution.Outcome.UNRESOLVED, "evaluation_timeout"
            row.reason = "The verifier did not end within 20 s."
        else:
            late = end - start > 88
            row.outcome = Execution.Outcome.PARTIAL if late else Execution.Outcome.COMPLETE
            row.reason_code, row.timed_out = ("harness_timeout", True) if late else ("scored", False)
            row.reward = max(0.0, min(1.0, round(rng.gauss(skill, 0.28) * 4) / 4))
            row.training_reward = row.reward
    demo.executions.append(row)
    return row


def _step(demo: Demo, at: float, version: int, burst: int, away: dict[int, float], fresh: list[Any]) -> None:
    rng, number = demo.rng, len(demo.batches) + 1
    late = max(0, version - next(iter(fresh))[0].burst * demo.shape.burst_batches)
    targets = sum(rng.randint(60, 90) for _ in range(64)) * 8
    batch = Batch(
        run=demo.run, number=number, burst=burst, version=version, state=Batch.State.STEPPED,
        num_groups=len(fresh), num_votes=sum(len(ends) for _, ends in fresh), opened_at=demo.when(at - 6),
        sealed_at=demo.when(at - 1.4), stepped_at=demo.when(at),
        metrics={
            "loss": round(-0.004 - rng.random() * 0.02, 5), "grad_norm": round(0.22 + rng.random() * 0.25, 4),
            "clip_fraction": round(rng.random() * 0.03, 4), "logprob_gap": round(0.002 + rng.random() * 0.002, 5),
            "staleness": {str(late): targets}, "step_s": round(rng.uniform(0.2, 0.4), 2),
        },
    )  # fmt: skip
    demo.batches.append(batch)
    for group, _ in fresh:
        group.batch, group.state = number, Group.State.CONSUMED
    demo.log.append((demo.when(at), events.EventKind.STEP_COMMITTED, {"version": version + 1, **batch.metrics}))
    batch.workers = sorted(away) or [0]  # type: ignore[attr-defined]


def _change(demo: Demo, index: int, old: str, new: str, at: float, phases: list[list[Any]]) -> RoleChange:
    took = sum(seconds for _, seconds in phases)
    row = RoleChange(
        cell=demo.cells[index], epoch=1, from_role=old, to_role=new, state=RoleChange.State.FINISHED,
        phases=[[name, round(seconds, 3)] for name, seconds in phases], started_at=demo.when(at),
        finished_at=demo.when(at + took),
    )  # fmt: skip
    demo.changes.append(row)
    payload = {"cell": index, "from": old, "to": new}
    demo.log.append((row.started_at, events.EventKind.ROLE_CHANGE_STARTED, payload))
    demo.log.append((row.finished_at or row.started_at, events.EventKind.ROLE_CHANGE_FINISHED, payload))
    return row


def _decide(
    demo: Demo, at: float, kind: str, index: int | None, accepted: bool, reason: str, params: dict[str, Any]
) -> None:
    number = len(demo.decisions) + 1
    demo.decisions.append(
        Decision(
            run=demo.run,
            number=number,
            evaluation_number=number,
            kind=kind,
            cell_index=index,
            accepted=accepted,
            reason_code=kind,
            reason=reason,
            params=params,
            snapshot={"waterlevel": 0},
            created_at=demo.when(at),
        )
    )
    demo.log.append((demo.when(at), events.EventKind.DECISION_MADE, {"number": number, "kind": kind}))


def _save(demo: Demo) -> None:
    """Shift the made-up clock so that it ends now, then write all rows."""
    shift = timezone.now() - demo.shape.age - demo.when(demo.at)
    _save_groups(demo, shift)
    _save_training(demo, shift)
    for change in demo.changes:
        change.started_at, change.finished_at = change.started_at + shift, _moved(change.finished_at, shift)
    _bulk(RoleChange, demo.changes, "started_at")
    for decision in demo.decisions:
        decision.created_at += shift
    _bulk(Decision, sorted(demo.decisions, key=lambda d: d.number), "created_at")
    for evaluation in Evaluation.objects.filter(run=demo.run):
        evaluation.created_at += shift
        evaluation.finished_at = _moved(evaluation.finished_at, shift)
        evaluation.save()
    _save_cells(demo)
    _save_run(demo, shift)


def _moved(at: datetime | None, shift: timedelta) -> datetime | None:
    return at + shift if at else None


def _bulk(model: Any, rows: list[Any], auto_field: str) -> None:
    """Insert rows and then set the column that fills itself at insertion."""
    wanted = [getattr(row, auto_field) for row in rows]
    model.objects.bulk_create(rows)
    for row, value in zip(rows, wanted, strict=True):
        setattr(row, auto_field, value)
    model.objects.bulk_update(rows, [auto_field], batch_size=500)


def _save_groups(demo: Demo, shift: timedelta) -> None:
    for group in demo.groups:
        group.created_at, group.ready_at = group.created_at + shift, _moved(group.ready_at, shift)
    _bulk(Group, demo.groups, "created_at")
    for row in demo.executions:
        for name in ("queued_at", "launched_at", "harness_started_at", "harness_ended_at", "finished_at"):
            setattr(row, name, _moved(getattr(row, name), shift))
        row.group = group = row.group
        if group.batch and row.reward is not None and group.reward_mean is not None:
            row.advantage = (row.reward - group.reward_mean) / ((group.reward_std or 0) + 1e-6)
    Execution.objects.bulk_create(sorted(demo.executions, key=lambda row: (row.group.number, row.index)))
    finished = [row for row in demo.executions if row.advantage is not None and row.advantage > 0]
    for row in (finished or demo.executions)[-2:]:
        fill_execution(row, j_max=demo.run.config["j_max"])


def _save_training(demo: Demo, shift: timedelta) -> None:
    for batch in demo.batches:
        opened = batch.opened_at + shift
        batch.sealed_at, batch.stepped_at = _moved(batch.sealed_at, shift), _moved(batch.stepped_at, shift)
        workers = batch.workers  # type: ignore[attr-defined]
        batch.save()
        Batch.objects.filter(pk=batch.pk).update(opened_at=opened)
        _micro_steps(demo, batch, workers)
        Checkpoint.objects.create(
            run=demo.run, version=batch.version + 1, path=f"/demo/v{batch.version + 1}", sha256="0" * 64,
            num_bytes=2_400_000,
        )  # fmt: skip
        WeightVersion.objects.create(
            run=demo.run, version=batch.version + 1, sha256="0" * 64, cell_index=0, epoch=1, manifest={}
        )


def _micro_steps(demo: Demo, batch: Batch, workers: list[int]) -> None:
    owners = [demo.rng.choice(workers) for _ in range(12)]
    hand_ins = {
        index: HandIn.objects.create(
            batch=batch, hand_in_id=uuid.uuid5(uuid.NAMESPACE_OID, f"{batch.pk}/{index}"), cell_index=index, epoch=1,
            num_micro_steps=owners.count(index),
        )
        for index in sorted(set(owners))
    }  # fmt: skip
    HandIn.objects.filter(batch=batch).update(created_at=batch.stepped_at - timedelta(seconds=0.4), state="counted")
    MicroStep.objects.bulk_create(
        MicroStep(
            batch=batch, number=i, num_tokens=3800 + i, num_targets=420 + i, num_trajectories=9, cell_index=owner,
            epoch=1, claimed_at=batch.sealed_at, hand_in=hand_ins[owner], counted_at=batch.stepped_at,
        )
        for i, owner in enumerate(owners)
    )  # fmt: skip


def _save_cells(demo: Demo) -> None:
    last: dict[int, RoleChange] = {change.cell.index: change for change in demo.changes}
    now = timezone.now() - demo.shape.age
    ended = demo.shape.state not in Run.LIVE_STATES
    for cell in demo.cells:
        change = last.get(cell.index)
        cell.role = cell.desired_role = change.to_role if change else Cell.Role.ROLLOUT
        cell.role_since = change.finished_at if change else demo.run.started_at
        if ended:
            cell.role, cell.role_since = Cell.Role.STOPPED, now
        cell.weight_version, cell.weight_hash = len(demo.batches), "5f0c" * 16
        cell.engine_url, cell.num_calls = f"http://127.0.0.1:{41000 + cell.index}", 0
        cell.heartbeat_at, cell.pid = now, 4000 + cell.index
        if cell.role == Cell.Role.ROLLOUT:
            cell.num_calls, cell.tokens_per_s, cell.num_kv_tokens = demo.rng.randint(6, 24), 612.0, 18_400
        cell.save()


def _save_run(demo: Demo, shift: timedelta) -> None:
    run, done = demo.run, (Execution.State.FINISHED, Execution.State.CANCELLED)
    rows = sorted(demo.log, key=lambda item: item[0])
    RunEvent.objects.bulk_create(
        RunEvent(run=run, seq=i, kind=kind, payload=payload) for i, (_, kind, payload) in enumerate(rows, start=1)
    )
    run.event_seq = len(rows)
    run.dispatched = run.launched = len(demo.executions)
    run.finished = sum(row.state in done for row in demo.executions)
    run.version, run.dispatch_cursor = len(demo.batches), len(demo.groups)
    run.started_at = demo.started + shift
    if demo.shape.state not in Run.LIVE_STATES:
        run.finished_at = timezone.now() - demo.shape.age
    run.save()
    Run.objects.filter(pk=run.pk).update(created_at=demo.started + shift - timedelta(seconds=3))


def demo_override(run: Run, username: str = "operator") -> Override:
    owner = get_user_model().objects.get_or_create(username=username)[0]
    return Override.objects.create(
        run=run, kind=Override.Kind.PIN, cell_index=1, value={"role": "rollout"}, owner=owner,
        reason="long tail on delegate-two", expires_at=timezone.now() + timedelta(minutes=40),
    )  # fmt: skip
