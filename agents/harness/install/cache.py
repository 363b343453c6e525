"""The cache of installed harnesses: `GYRE_HOME/harnesses/NAME-VERSION-HASH`, whole or not there at all.

One installer at a time works on an installation, whatever its process; the others wait for it. What it downloads
gathers in `….part`, which the next one finds when it was interrupted, and becomes the installation by being renamed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from agents.harness.install import clients
from agents.harness.install.recipe import Installed, InstallError, Recipe

log = logging.getLogger(__name__)

_RECORD = "gyre-installed.json"
Say = Callable[[int, int], None]


def place_of(recipe: Recipe, home: Path) -> Path:
    return home / "harnesses" / recipe.key


def find(recipe: Recipe, home: Path) -> Installed | None:
    """The installation if it is complete."""
    place = place_of(recipe, home)
    try:
        record = json.loads((place / _RECORD).read_text())
    except FileNotFoundError:
        return None
    return Installed(recipe.harness, recipe.version, place, recipe.program, record["integrity"])


def install(recipe: Recipe, home: Path, say: Say | None = None) -> Installed:
    """The installation, made first where there is none. `say(MB so far, MB expected)` about once a second.

    Raises InstallError.
    """
    found = find(recipe, home)
    if found is not None:
        return found
    clients.require(recipe)
    place = place_of(recipe, home)
    place.parent.mkdir(parents=True, exist_ok=True)
    with _alone(place) as lock:
        return find(recipe, home) or _install(recipe, home, lock, say)


def _install(recipe: Recipe, home: Path, lock: int, say: Say | None) -> Installed:
    place = place_of(recipe, home)
    part = place.with_name(f"{place.name}.part")
    begun, started = part.exists(), time.monotonic()
    log.info("installing %s %s", recipe.harness, recipe.version)
    try:
        integrity = _fill(recipe, part, lock, say)
    except InstallError as error:
        if not begun:
            raise
        log.warning("what was left of an interrupted installation is of no use (%s); starting anew", error)
        shutil.rmtree(part)
        integrity = _fill(recipe, part, lock, say)
    (part / _RECORD).write_text(
        json.dumps({"harness": recipe.harness, "version": recipe.version, "integrity": dict(integrity)}, indent=1)
    )
    part.rename(place)
    for kept in ("npm", "pip"):
        shutil.rmtree(f"{part}.{kept}", ignore_errors=True)
    log.info("installed %s %s in %.1f s", recipe.harness, recipe.version, time.monotonic() - started)
    return Installed(recipe.harness, recipe.version, place, recipe.program, integrity)


def _fill(recipe: Recipe, part: Path, lock: int, say: Say | None) -> dict[str, str]:
    part.mkdir(mode=0o755, exist_ok=True)
    clients.run(recipe, part, lock, lambda: say(megabytes(part), recipe.size_mb) if say else None)
    if not os.access(part / recipe.program, os.R_OK):
        raise InstallError(f"{recipe.harness} {recipe.version} was installed but has no {recipe.program}")
    integrity = dict(clients.checksums(recipe, part))
    for package, expected in recipe.integrity.items():
        if integrity.get(package, expected) != expected:
            shutil.rmtree(part)
            raise InstallError(
                f"{package} came with the checksum {integrity[package]}, not {expected}: the registry gave "
                "something else than what Gyre was tested with, and it was thrown away"
            )
    return integrity


def megabytes(folder: Path) -> int:
    """What the files below a folder hold."""
    total = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(top, name)).st_size
    return total >> 20


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[int]:
    """A lock for one installer at a time, as a descriptor; the kernel frees it when installer and client are dead."""
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another process installs %s; waiting for it", place.name)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
