"""What the lock files pin, and whether they are complete: every package's requirements are pinned as well."""

import importlib.metadata
from collections.abc import Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gyreweb.env import REPO_ROOT

#: Only for parts of a package that Gyre never imports: (package, requirement).
LEFT_OUT = frozenset({("mini-swe-agent", "datasets"), ("mini-swe-agent", "textual")})


def pins(lock: str) -> dict[str, str]:
    """Exact version of each package in `locks/<lock>.lock`."""
    lines = (REPO_ROOT / "locks" / f"{lock}.lock").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def requirements(package: str, environment: Mapping[str, str] | None = None) -> list[Requirement]:
    """What an installed package needs here, without its extras; `environment` overrides markers of this Python.

    Raises PackageNotFoundError.
    """
    marks = {**(environment or {}), "extra": ""}
    return [
        needed
        for needed in map(Requirement, importlib.metadata.requires(package) or [])
        if (needed.marker is None or needed.marker.evaluate(marks))
        and (canonicalize_name(package), canonicalize_name(needed.name)) not in LEFT_OUT
    ]


def not_installed(lock: str) -> list[str]:
    """Requirements of the lock's packages that are absent or too old or new here, as `name for package`."""
    found = []
    for package in pins(lock):
        try:
            needed_by_it = requirements(package)
        except importlib.metadata.PackageNotFoundError:
            continue  # the check of versions reports it
        for needed in needed_by_it:
            try:
                good = needed.specifier.contains(importlib.metadata.version(needed.name), prereleases=True)
            except importlib.metadata.PackageNotFoundError:
                good = False
            if not good:
                found.append(f"{needed.name}{needed.specifier} for {package}")
    return found
