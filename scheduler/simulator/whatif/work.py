"""A worker's part: take a what-if under a lease, have a process of its own simulate it, keep results as they come.

A worker that dies lets the lease expire; the next one goes on with the same inputs where it stopped. After
`MAX_WORKERS` deaths the what-if is interrupted, for a person to look at; so it is when its process was killed.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from agents.actions.errors import Refused
from scheduler.models import WhatIf, WhatIfPoint
from scheduler.simulator.scenarios import BadScenario
from scheduler.simulator.whatif.question import Question
from scheduler.simulator.whatif.reading import read_inputs

LEASE_S = 20.0
LOOK_EVERY_S = 1.0
MAX_WORKERS = 3
State = WhatIf.State


class Killed(Exception):
    """A signal ended the simulating process: nothing is wrong with the question. The message says which."""


def free() -> Q:
    """Nobody works on it: it waits, or its worker's lease is over."""
    return Q(state=State.QUEUED) | Q(state=State.RUNNING, lease_expires_at__lt=Now())


def waiting(for_s: float) -> list[int]:
    """What-ifs that nobody works on although they were asked so long ago: their message or their worker was lost."""
    rows = WhatIf.objects.filter(free(), created_at__lt=Now() - timedelta(seconds=for_s))
    return list(rows.order_by("pk").values_list("pk", flat=True)[:32])


def work_on(what_if_id: int) -> bool:
    """Answer this what-if. False when it is not there to be taken."""
    owner = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
    row = _take(what_if_id, owner)
    if row is None:
        return False
    try:
        _read(row)
        _simulate(row)
    except Killed as error:
        _end(row, State.INTERRUPTED, str(error))
    except (BadScenario, Refused) as error:
        _end(row, State.FAILED, str(error))
    return True


def _take(what_if_id: int, owner: str) -> WhatIf | None:
    with transaction.atomic():
        row = WhatIf.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        found = row.select_related("run").filter(free(), pk=what_if_id).first()
        if found is None:
            return None
        if found.num_workers >= MAX_WORKERS:
            found.state, found.finished_at = State.INTERRUPTED, Now()
            found.error = f"{MAX_WORKERS} workers in turn died over it; see logs/worker-control.log, then resume it"
            found.save(update_fields=["state", "finished_at", "error"])
            return None
        found.state, found.lease_owner, found.lease_expires_at = State.RUNNING, owner, _expiry()
        found.num_workers += 1
        changed = ["state", "lease_owner", "lease_expires_at", "num_workers"]
        if found.started_at is None:
            found.started_at = Now()
            changed.append("started_at")
        found.save(update_fields=changed)
    return found


def _expiry() -> Any:
    return Now() + timedelta(seconds=LEASE_S)


def _held(row: WhatIf) -> Any:
    """The row while this worker may go on with it: a person may cancel it, another worker may have taken it."""
    return WhatIf.objects.filter(pk=row.pk, state=State.RUNNING, lease_owner=row.lease_owner)


def _read(row: WhatIf) -> None:
    if row.inputs:
        return
    inputs, fit = read_inputs(row.run, Question.from_json(row.question))
    row.inputs = inputs.pack()
    _held(row).update(inputs=row.inputs, fit=fit)


def _simulate(row: WhatIf) -> None:
    question = Question.from_json(row.question)
    points = list(WhatIfPoint.objects.filter(what_if=row).order_by("number"))
    done = {(point.number, result["seed"]) for point in points for result in point.results}
    # Seed by seed over all points: an early answer about every point, which then sharpens.
    jobs = [
        (point.number, point.changes, seed)
        for seed in range(1, question.seeds + 1)
        for point in points
        if (point.number, seed) not in done
    ]
    asked = {
        "inputs": base64.b64encode(bytes(row.inputs)).decode(),
        "question": row.question,
        "target": row.target_version if done else "ask",
        "jobs": jobs,
    }
    for said in _child(row, json.dumps(asked)):
        if "error" in said:
            _end(row, State.FAILED, said["error"])
            return
        if "target" in said:
            _held(row).update(target_version=said["target"])
        elif not _keep(row, said["point"], said["result"]):
            return
    _end(row, State.FINISHED)


def _keep(row: WhatIf, number: int, result: dict[str, Any]) -> bool:
    """False when the what-if is no longer this worker's."""
    with transaction.atomic():
        held = _held(row).select_for_update(no_key=True).only("num_done").first()
        if held is None:
            return False
        point = WhatIfPoint.objects.get(what_if=row, number=number)
        if all(known["seed"] != result["seed"] for known in point.results):
            point.results = [*point.results, result]
            point.save(update_fields=["results"])
            held.num_done += 1
        held.lease_expires_at = _expiry()
        held.save(update_fields=["num_done", "lease_expires_at"])
    return True


def _end(row: WhatIf, state: str, error: str = "") -> None:
    _held(row).update(state=state, error=error[:2000], finished_at=Now())


def _child(row: WhatIf, asked: str) -> Iterator[dict[str, Any]]:
    """What the simulating process says. It is ended when the what-if is no longer ours.

    Raises Refused if it fails, Killed if a signal ended it.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduler.simulator.whatif.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=django_settings.BASE_DIR,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(asked.encode())
        process.stdin.close()
        for line in _lines(row, process.stdout.fileno()):
            if line is None:
                return
            yield json.loads(line)
        if process.wait() < 0:
            raise Killed(_killed_by(-process.returncode))
        if process.returncode != 0:
            why = process.stderr.read().decode(errors="replace").strip().splitlines()
            raise Refused(f"the simulation broke: {why[-1] if why else f'exit code {process.returncode}'}")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def _killed_by(number: int) -> str:
    memory = "; the system does so when memory runs out, see its log" if number == signal.SIGKILL else ""
    name = signal.Signals(number).name if number in set(signal.Signals) else "of no name"
    return (
        f"the simulating process was killed by signal {number} ({name}){memory}. What was simulated is kept, and "
        "resuming goes on from there"
    )


def _lines(row: WhatIf, descriptor: int) -> Iterator[bytes | None]:
    """Lines as they come; None when the what-if was cancelled or taken over. Renews the lease meanwhile."""
    rest = b""
    looked_s = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if selector.select(LOOK_EVERY_S):
                data = os.read(descriptor, 65_536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                yield from lines
            if time.monotonic() - looked_s >= LOOK_EVERY_S:
                looked_s = time.monotonic()
                if not _held(row).update(lease_expires_at=_expiry()):
                    yield None
                    return
