"""A run with live cells, and the small part of the scheduler that these tests play: desired roles and batches."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import requests
from django.utils import timezone

from agents.models import Project, Run, TaskSet
from scheduler.actions.launch_cells import launch_cells, stop_cells
from scheduler.config import preset
from scheduler.models import Cell, RoleChange
from tests.support import waiting
from trainers.core.payload import Payload, encode_payload
from trainers.models import Batch, HandIn, MicroStep

PATIENCE_S = 180.0
wait_for = functools.partial(waiting.wait_for, patience_s=PATIENCE_S)


class LiveCells:
    def __init__(self, home: Path, database_url: str, policy_folder: Path) -> None:
        self.home = home
        self.policy_folder = policy_folder
        self.connection = psycopg.connect(database_url, autocommit=True)
        self.runs: list[Run] = []

    def start(self, num_cells: int, **settings: Any) -> Run:
        """A run with `num_cells` cells in rollout at version 0."""
        config = preset("quickstart", policy_path=str(self.policy_folder), cells=max(num_cells, 2), **settings)
        project, _ = Project.objects.get_or_create(name="cells")
        task_set, _ = TaskSet.objects.get_or_create(name="none")
        run = Run.objects.create(
            project=project, task_set=task_set, name="cells", config=config.model_dump(mode="json"), seed=config.seed
        )
        self.runs.append(run)
        for index in range(num_cells):
            Cell.objects.create(run=run, index=index, is_core=index == 0)
        launch_cells(run.pk)
        self.wait_roles(run, "rollout")
        return run

    def restart(self, run: Run) -> None:
        """As when everything is stopped and started again."""
        stop_cells(run.pk)
        launch_cells(run.pk)
        self.wait_roles(run, "rollout")

    def stop(self) -> None:
        for run in self.runs:
            stop_cells(run.pk)
        self.connection.close()

    def cell(self, run: Run, index: int) -> Cell:
        return Cell.objects.get(run=run, index=index)

    def wait_roles(self, run: Run, role: str, indices: Sequence[int] = ()) -> None:
        def reached() -> bool:
            cells = [c for c in Cell.objects.filter(run=run) if not indices or c.index in indices]
            lost = [c.error for c in cells if c.role == "lost"]
            assert not lost, f"{lost} {self.logs()}"
            return all(cell.role == role for cell in cells)

        wait_for(reached, lambda: f"cells {list(indices) or 'all'} in {role}; {self.logs()}")

    def desire(self, run: Run, role: str, indices: Sequence[int] = ()) -> None:
        """As the scheduler does: a started role change and a new desired role."""
        for cell in Cell.objects.filter(run=run):
            if (not indices or cell.index in indices) and cell.desired_role != role:
                RoleChange.objects.create(cell=cell, epoch=cell.epoch, from_role=cell.role, to_role=role)
                Cell.objects.filter(pk=cell.pk).update(desired_role=role)

    def switch(self, run: Run, role: str, indices: Sequence[int] = ()) -> None:
        self.desire(run, role, indices)
        self.wait_roles(run, role, indices)

    def open_batch(self, run: Run, payloads: Sequence[Payload], number: int = 1) -> Batch:
        batch = Batch.objects.create(run=run, number=number, burst=1, version=number - 1)
        self.admit(batch, payloads)
        return batch

    def admit(self, batch: Batch, payloads: Sequence[Payload]) -> None:
        first = MicroStep.objects.filter(batch=batch).count()
        for number, payload in enumerate(payloads, start=first):
            MicroStep.objects.create(
                batch=batch,
                number=number,
                num_tokens=payload.num_tokens,
                num_targets=payload.num_targets,
                num_trajectories=payload.num_trajectories,
                payload=encode_payload(payload),
            )

    def seal(self, batch: Batch, num_votes: int) -> None:
        Batch.objects.filter(pk=batch.pk).update(state="sealed", num_votes=num_votes, sealed_at=timezone.now())

    def wait_version(self, run: Run, version: int) -> None:
        def reached() -> bool:
            assert not Cell.objects.filter(run=run, role="lost"), self.logs()
            return Run.objects.get(pk=run.pk).version == version

        wait_for(reached, lambda: f"version {version}; {self.logs()}")

    def generate(self, cell: Cell, input_ids: Sequence[int], num_tokens: int, **sampling: Any) -> dict[str, Any]:
        reply = requests.post(
            f"{cell.engine_url}/generate",
            headers={"Authorization": f"Bearer {cell.engine_key}"},
            json={
                "input_ids": list(input_ids),
                "return_logprob": True,
                "sampling_params": {"max_new_tokens": num_tokens, "temperature": 1.0, "ignore_eos": True} | sampling,
            },
            timeout=120,
        )
        reply.raise_for_status()
        body: dict[str, Any] = reply.json()
        return body

    def num_calls(self, cell: Cell) -> int:
        reply = requests.get(
            f"{cell.engine_url}/v1/loads", headers={"Authorization": f"Bearer {cell.engine_key}"}, timeout=30
        )
        return sum(row["num_running_reqs"] + row["num_waiting_reqs"] for row in reply.json()["loads"])

    def logs(self) -> str:
        """The ledger and the ends of the log files, for a failed wait."""
        ledger = [str(row) for rows in (HandIn, Batch) for row in rows.objects.values()]
        ledger += [
            str(row) for row in MicroStep.objects.values("number", "cell_index", "epoch", "hand_in", "counted_at")
        ]
        files = sorted((self.home / "logs").glob("*.log"))
        return "\n".join([*ledger, *(f"== {path.name}\n{path.read_text()[-1500:]}" for path in files)])


def sampled_payload(cells: LiveCells, cell: Cell, seed: int, num_trajectories: int = 3, version: int = 0) -> Payload:
    """A micro-step of trajectories that the cell's engine really sampled, with made-up advantages."""
    draw = np.random.default_rng(seed)
    ids, masks, logprobs, lengths = [], [], [], []
    for _ in range(num_trajectories):
        prompt = draw.integers(3, 1400, int(draw.integers(5, 60))).tolist()
        reply = cells.generate(cell, prompt, int(draw.integers(4, 24)))
        output = reply["output_ids"]
        ids += prompt + output
        masks += [False] * len(prompt) + [True] * len(output)
        logprobs += [0.0] * len(prompt) + [entry[0] for entry in reply["meta_info"]["output_token_logprobs"]]
        lengths.append(len(prompt) + len(output))
    mask = np.array(masks)
    trajectory = np.repeat(np.arange(num_trajectories), lengths)
    advantages = draw.normal(size=num_trajectories)[trajectory]
    return Payload(
        input_ids=np.array(ids, np.int32),
        cu_seqlens=np.cumsum([0, *lengths]).astype(np.int32),
        target_mask=mask,
        behaviour_logprobs=np.array(logprobs, np.float32),
        weights=np.where(mask, 1.0 / mask.sum(), 0).astype(np.float32),
        advantages=np.where(mask, advantages, 0).astype(np.float32),
        call_ids=np.where(mask, trajectory, -1).astype(np.int32),
        versions=np.where(mask, version, -1).astype(np.int32),
    )
