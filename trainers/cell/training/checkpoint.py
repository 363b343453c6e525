"""Durable checkpoints: weights, optimizer, version and cursor together (docs/algorithms.md §11).

A checkpoint is a folder `v<version>` that appears by one rename after everything in it is on disk:

    hf/            Hugging Face folder: config, tokenizer, model.safetensors (transformers loads it)
    optimizer.pt   optimizer state of each rank's shard, tensors only
    state.json     version, cursor, and the SHA-256 of every other file; its own hash is the checkpoint's
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from trainers.checkpoint_files import STATE, BadCheckpoint, sha256_of_file, verified_state
from trainers.core.checkpoint_layout import WEIGHTS

OPTIMIZER = "optimizer.pt"
_NAME = re.compile(r"^v(\d+)$")


@dataclass(frozen=True)
class Written:
    path: Path
    sha256: str
    num_bytes: int


@dataclass(frozen=True)
class Restored:
    version: int
    cursor: dict[str, Any]
    weights: dict[str, torch.Tensor]
    optimizer: list[dict[str, Any]]


def folder_of(run_folder: Path, version: int) -> Path:
    return run_folder / "checkpoints" / f"v{version}"


def write(
    run_folder: Path,
    version: int,
    weights: Mapping[str, torch.Tensor],
    optimizer: list[dict[str, Any]],
    cursor: dict[str, Any],
    policy_folder: Path,
) -> Written:
    """Write checkpoint `version`. It replaces a leftover of the same version that was never committed."""
    target = folder_of(run_folder, version)
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".{target.name}.*.tmp"):  # of a core that died, or met a full disk
        shutil.rmtree(left, ignore_errors=True)
    scratch = target.parent / f".{target.name}.{os.getpid()}.tmp"
    try:
        sha256 = _fill(scratch, version, weights, optimizer, cursor, policy_folder)
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    _sync(target.parent)
    num_bytes = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return Written(target, sha256, num_bytes)


def _fill(
    scratch: Path,
    version: int,
    weights: Mapping[str, torch.Tensor],
    optimizer: list[dict[str, Any]],
    cursor: dict[str, Any],
    policy_folder: Path,
) -> str:
    """All files of a checkpoint, on disk when this returns; the hash of its state."""
    (scratch / "hf").mkdir(parents=True)
    for source in sorted(policy_folder.iterdir()):
        if source.is_file() and source.suffix != ".safetensors" and not source.name.endswith(".safetensors.index.json"):
            shutil.copyfile(source, scratch / "hf" / source.name)
    contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
    save_file(contiguous, scratch / WEIGHTS, metadata={"format": "pt"})
    torch.save(optimizer, scratch / OPTIMIZER)
    files = sorted(path for path in scratch.rglob("*") if path.is_file())
    hashes = {str(path.relative_to(scratch)): sha256_of_file(path) for path in files}
    state = json.dumps({"version": version, "cursor": cursor, "files": hashes}, indent=1, sort_keys=True).encode()
    (scratch / STATE).write_bytes(state)
    for path in [*files, scratch / STATE, scratch / "hf", scratch]:
        _sync(path)
    return hashlib.sha256(state).hexdigest()


def read(path: Path, sha256: str = "") -> Restored:
    """Load and verify. Raises BadCheckpoint."""
    state = verified_state(path, sha256)
    try:
        optimizer = torch.load(path / OPTIMIZER, weights_only=True)
        return Restored(state["version"], state["cursor"], load_file(path / WEIGHTS), optimizer)
    except (OSError, ValueError, KeyError) as error:
        raise BadCheckpoint(f"{path}: {error}") from error


def prune(run_folder: Path, keep: int, protected: Iterable[int] = ()) -> list[int]:
    """Delete all but the `keep` newest; never the newest, never a protected version. Returns what was deleted."""
    folder = run_folder / "checkpoints"
    found = sorted(int(match[1]) for entry in folder.iterdir() if entry.is_dir() and (match := _NAME.match(entry.name)))
    doomed = sorted(set(found[: -max(keep, 1)]) - set(protected))
    for version in doomed:
        shutil.rmtree(folder / f"v{version}")
    return doomed


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
