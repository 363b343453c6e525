"""What an execution costs, by process, in CPU, database traffic and waiting (docs/executions-cost.md).

A real scheduler, proxy and both Celery workers, as `make up` starts them, run bursts of quickstart tasks with the
reference harness in real sandboxes; only the cell is absent: its row says that it serves, and behind its address a
scripted engine answers at once with two commands and "done". The baseline is the bare harness and verifier, forked in
one sandbox that stands, with a model that answers at once. Two bursts count: one for CPU, one with workers whose
database traffic is written down, which costs time itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.models import Max, Min
from django.db.models.functions import Now

from agents.actions.import_task_set import import_task_set
from agents.harness.drivers import DRIVERS
from agents.harness.sandbox.base import SandboxSpec
from agents.harness.sandbox.client import SandboxServer
from agents.harness.worksite import Worksite
from agents.models import Execution, Group, Project, Run, Task, TaskSet
from agents.proxy.rendering import BUNDLED_POLICY, rendering
from agents.proxy.scripted import ScriptedEngine, serve
from gyreweb.bench import bare, counted
from gyreweb.bench.figures import Figure
from gyreweb.bench.plant import WORKERS, Plant, Tree, servers
from scheduler.config import preset
from scheduler.models import Cell

#: A burst of the quickstart: two batches of eight groups, at most 128 executions at once.
NUM_GROUPS = 16
EXECUTIONS_PER_GROUP = 8
WARM_UP_GROUPS = 2
BARE_ROUNDS = 24
#: Longest that a burst may take: a part whatever its size, and a part per execution.
_BURST_S, _EXECUTION_S = 120.0, 1.0
_LOOK_S = 0.5
#: Statements that are shown with how often an execution has them sent.
_SHOWN = 30


@dataclass(frozen=True)
class Bare:
    """Medians of one round of the bare harness and verifier."""

    cpu_s: float
    to_first_call_s: float
    from_last_call_s: float


@dataclass(frozen=True)
class Counts:
    """Database traffic of both workers in one burst, and what threads waited for a connection."""

    traffic: counted.Traffic
    waited_s: float
    num_waits: int


def run(num_groups: int = NUM_GROUPS, per_group: int = EXECUTIONS_PER_GROUP) -> Mapping[str, Figure]:
    """Figures of `manage.py bench executions`."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gyre-bench-", ignore_cleanup_errors=True)))
        stack.enter_context(servers(home))
        print(f"a Gyre of the benchmark's own is made at {home}", file=sys.stderr)
        task_set = _task_set()
        floor = _bare(home, task_set)
        site = Site(Plant(home), stack.enter_context(_engine()), task_set)
        stack.callback(site.plant.stop_all)
        site.plant.start(["proxy", *WORKERS, "scheduler"])
        site.burst(WARM_UP_GROUPS, per_group)
        before, started = site.plant.cpu(), time.monotonic()
        burst = site.burst(num_groups, per_group)
        used, wall_s = site.plant.cpu(), time.monotonic() - started
        print(f"the burst took {wall_s:.0f} s; now the same with its database traffic written down", file=sys.stderr)
        site.plant.stop(WORKERS)
        counts = _counted(site, home / "counts", num_groups, per_group)
        count = num_groups * per_group
        spent = {part: used[part] - before[part] for part in used}
        return _figures(spent, count, counts, floor) | _times(burst, floor) | {
            "executions": Figure(count, "executions"), "wall": Figure(wall_s / count, "s")
        }  # fmt: skip


def _figures(spent: Mapping[str, Tree], count: int, counts: Counts, floor: Bare) -> dict[str, Figure]:
    """Per execution. Every CPU figure stands beside the bare harness and verifier."""

    def cpu(seconds: float) -> Figure:
        return Figure.against(1e3 * seconds / count, 1e3 * floor.cpu_s, "ms")

    sandbox = spent["sandbox"]
    own = {
        "worker_cpu": spent["worker-executions"].own_s,
        "evaluation_cpu": spent["worker-control"].own_s,
        "sandbox_server_cpu": sandbox.own_s,
        "sandboxed_cpu": sandbox.children_s,
        "proxy_cpu": spent["proxy"].own_s,
        "scheduler_cpu": spent["scheduler"].own_s,
        "postgres_cpu": spent["postgres"].own_s + spent["postgres"].children_s,
        "valkey_cpu": spent["valkey"].own_s,
    }
    kinds = counts.traffic
    return {
        **{name: cpu(seconds) for name, seconds in own.items()},
        "workers_and_sandbox_servers_cpu": cpu(
            own["worker_cpu"] + own["evaluation_cpu"] + own["sandbox_server_cpu"] + own["sandboxed_cpu"]
        ),
        "total_cpu": cpu(sum(own.values())),
        "round_trips": Figure(kinds.round_trips / count, "round trips"),
        "transaction_round_trips": Figure(kinds.transaction_control / count, "round trips"),
        "transactions": Figure(kinds.transactions / count, "transactions"),
        "connection_waits": Figure(counts.num_waits / count, "waits"),
        "connection_wait": Figure(1e3 * counts.waited_s / count, "ms"),
    }


def _times(burst: Run, floor: Bare) -> dict[str, Figure]:
    """Medians over the burst, in which executions share the machine; the bare harness has it to itself."""
    executions = Execution.objects.filter(run=burst).annotate(first=Min("calls__started_at"))
    first = [(e.first - e.group.created_at).total_seconds() for e in executions.select_related("group")]
    groups = Group.objects.filter(run=burst, ready_at__isnull=False)
    groups = groups.annotate(last=Max("executions__calls__committed_at"))
    last = [(group.ready_at - group.last).total_seconds() for group in groups]
    return {
        "dispatch_to_first_call": Figure.against(statistics.median(first), floor.to_first_call_s, "s"),
        "last_call_to_group_ready": Figure.against(statistics.median(last), floor.from_last_call_s, "s"),
    }


@dataclass
class Site:
    """Runs, one after another, on one plant and one engine."""

    plant: Plant
    engine_url: str
    task_set: TaskSet

    def burst(self, num_groups: int, per_group: int) -> Run:
        """One burst from its dispatch until every group is ready."""
        config = preset(
            "quickstart", cells=1, groups_per_batch=num_groups, executions_per_group=per_group, burst_batches=1,
            concurrency_per_cell=num_groups * per_group, steps=1, eval_every_steps=0,
        )  # fmt: skip
        project, _ = Project.objects.get_or_create(slug="bench", defaults={"name": "Benchmarks"})
        made = Run.objects.create(
            project=project, task_set=self.task_set, name="bench", state=Run.State.STARTING, seed=1,
            policy_kind=config.policy_kind, config=config.model_dump(mode="json"),
        )  # fmt: skip
        cell = Cell.objects.create(
            run=made, index=0, is_core=True, role=Cell.Role.ROLLOUT, engine_url=self.engine_url, weight_version=0,
            heartbeat_at=Now(), role_since=Now(),
        )  # fmt: skip
        limit_s = _BURST_S + _EXECUTION_S * num_groups * per_group
        deadline = time.monotonic() + limit_s
        while _num_ready(made) < num_groups:
            if time.monotonic() > deadline:
                states = list(Execution.objects.filter(run=made).values_list("state", "reason"))
                raise RuntimeError(f"the burst did not end within {limit_s:g} s: {states[:8]}")
            Cell.objects.filter(pk=cell.pk).update(heartbeat_at=Now())
            time.sleep(_LOOK_S)
        Run.objects.filter(pk=made.pk).update(state=Run.State.FINISHED)
        Cell.objects.filter(pk=cell.pk).update(role=Cell.Role.STOPPED, desired_role=Cell.Role.STOPPED)
        _check(made)
        return made


def _num_ready(made: Run) -> int:
    return Group.objects.filter(run=made, ready_at__isnull=False).count()


def _check(made: Run) -> None:
    """Figures count only where all executions did what they were to do."""
    executions = list(Execution.objects.filter(run=made))
    odd = [e for e in executions if e.outcome != Execution.Outcome.COMPLETE or e.num_calls != len(bare.COMMANDS) + 1]
    if odd or any(e.attempt != 1 for e in executions):
        raise RuntimeError(f"{len(odd)} of {len(executions)} executions went wrong: {odd[:1]} {odd and odd[0].reason}")


def _counted(site: Site, folder: Path, num_groups: int, per_group: int) -> Counts:
    """The same burst again, with workers whose database traffic is counted."""
    folder.mkdir()
    site.plant.start(WORKERS, counts=folder)
    pids = [site.plant.pid(name) for name in WORKERS]
    site.burst(WARM_UP_GROUPS, per_group)
    _pools(folder, pids)
    sizes = {place: place.stat().st_size for place in folder.glob(f"*{counted.SUFFIX}")}
    site.burst(num_groups, per_group)
    pools = _pools(folder, pids)
    total = counted.total(folder, sizes)
    for statement, times in total.statements.most_common(_SHOWN):
        print(f"{times / (num_groups * per_group):8.2f}  {statement}", file=sys.stderr)
    return Counts(
        total,
        sum(pool.get("requests_wait_ms", 0) for pool in pools) / 1e3,
        sum(pool.get("requests_queued", 0) for pool in pools),
    )


def _pools(folder: Path, pids: list[int]) -> list[dict[str, int]]:
    found = []
    for pid in pids:
        place = folder / f"{pid}.pool"
        place.unlink(missing_ok=True)
        os.kill(pid, counted.REPORT_SIGNAL)
        deadline = time.monotonic() + 30
        while not place.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"worker {pid} does not tell about its pool")
            time.sleep(0.02)
        found.append(json.loads(place.read_text()))
    return found


def _task_set() -> TaskSet:
    """The quickstart's, less the tasks whose instruction fills the memory: their agents are asked for a summary."""
    found = import_task_set("quickstart")
    found.tasks.filter(kind="compaction").delete()
    return found


def _bare(home: Path, task_set: TaskSet) -> Bare:
    """Harness and verifier of the first quickstart task, without anything around them."""
    driver = DRIVERS["reference"]
    task = task_set.tasks.filter(split=Task.Split.TRAIN).order_by("name").first()
    assert task is not None
    model, socket_path = bare.Model(), home / "bare.sock"
    server = SandboxServer({"bare": "gyreweb.bench.bare:main"})
    site = Worksite.open(Path(task.path), task.digest, driver, home, home / "runs" / "bare" / "1")
    with _loop() as call, contextlib.closing(server):
        runner = call(model.serve(socket_path))
        site.prepare(server)
        site.workspace.upload_tests(site.task.path / "tests")
        spec = _with_verifier(site.harness_spec("none", socket_path), site)
        end = server.run(spec, _BURST_S)
        if end is None or end.code:
            raise RuntimeError(f"the bare harness failed: {spec.log.read_text(errors='replace')[-2000:]}")
        call(runner.cleanup())
    rounds = json.loads((site.workspace.agent_logs / bare.RESULT).read_text())
    calls = len(bare.COMMANDS) + 1
    firsts, lasts = model.times[calls::calls], model.times[2 * calls - 1 :: calls]
    site.workspace.remove()
    return Bare(
        statistics.median(each["cpu_s"] for each in rounds),
        statistics.median(first[0] - each["started"] for first, each in zip(firsts, rounds, strict=True)),
        statistics.median(each["ended"] - last[1] for last, each in zip(lasts, rounds, strict=True)),
    )


def _with_verifier(spec: SandboxSpec, site: Worksite) -> SandboxSpec:
    """The harness's own sandbox, with the verifier's files shown beside it."""
    shown = {bind.dest: bind for bind in (*spec.binds, *site.workspace.verifier_binds(site.user(None)))}
    env = {**spec.env, bare.ROUNDS_VARIABLE: str(BARE_ROUNDS)}
    return replace(spec, program="bare", env=env, binds=tuple(shown.values()))


@contextlib.contextmanager
def _engine() -> Iterator[str]:
    """A scripted engine that plays the agent of `bare.COMMANDS`; its turn follows from the turns in the prompt."""
    policy = rendering(BUNDLED_POLICY)
    says = [
        "<tool_call>\n" + json.dumps({"name": "bash", "arguments": {"command": command}}) + "\n</tool_call>"
        for command in bare.COMMANDS
    ]
    replies = [[*policy.tokenizer.encode(text), policy.close_id] for text in (*says, "done")]

    def script(ids: list[int]) -> list[int]:
        """System and user are closed, and an assistant's and a tool's turn for each command."""
        return replies[min((ids.count(policy.close_id) - 2) // 2, len(says))]

    engine = ScriptedEngine(script, weight_version="0")
    with _loop() as call:
        serving = serve(engine)
        yield call(serving.__aenter__())
        call(serving.__aexit__(None, None, None))


@contextlib.contextmanager
def _loop() -> Iterator[Callable[[Any], Any]]:
    """An event loop in a thread of its own: what the block calls to run something there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def call(work: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, loop)
        return future.result(60)

    try:
        yield call
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        connection.close()
