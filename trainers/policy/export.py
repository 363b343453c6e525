"""A trained policy as a Hugging Face folder: a checkpoint's weights beside the files of the policy it started from."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from agents.models import Run
from trainers.checkpoint_files import BadCheckpoint, verified_state
from trainers.core.checkpoint_layout import WEIGHTS
from trainers.models import Checkpoint
from trainers.policy.folder import BUNDLED

_WEIGHT_SUFFIXES = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack"}


class NothingToExport(Exception):
    """The run has no such checkpoint any more; the text names those that it has."""


def export_policy(run: Run, out: Path, version: int | None = None) -> int:
    """Write version `version` (None: the newest) of a run's policy to the folder `out`; returns the version.

    Version 0 is the policy that the run started from. Raises NothingToExport,
    also when its files are not those that were written.
    """
    start = Path(run.config["policy_path"] or BUNDLED)
    kept = {c.version: c for c in Checkpoint.objects.filter(run=run, deleted_at__isnull=True)}
    chosen = max(kept, default=0) if version is None else version
    if chosen and chosen not in kept:
        raise NothingToExport(f"{run} keeps no checkpoint of version {chosen}; kept: {_names(kept)}")
    if chosen:
        try:
            verified_state(Path(kept[chosen].path), kept[chosen].sha256)
        except BadCheckpoint as problem:
            raise NothingToExport(f"{problem}; take another --version; kept: {_names(kept)}") from problem
    out.mkdir(parents=True, exist_ok=True)
    for file in start.iterdir():
        if (
            file.is_file()
            and (chosen == 0 or not _holds_weights(file))
            and file.resolve() != (out / file.name).resolve()
        ):
            shutil.copyfile(file, out / file.name)
    if chosen:
        shutil.copyfile(Path(kept[chosen].path) / WEIGHTS, out / WEIGHTS.name)
    return chosen


def _names(kept: Iterable[int]) -> str:
    return ", ".join(map(str, sorted({0, *kept}))) + " (0: its first weights)"


def _holds_weights(file: Path) -> bool:
    return file.suffix in _WEIGHT_SUFFIXES or file.name.endswith(".index.json")
