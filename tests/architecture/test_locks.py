"""Lock files: exact versions, no addresses, one version of each package, and a control plane without torch."""

import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gyreweb.env import REPO_ROOT
from gyreweb.locked import pins, requirements

LOCKS = sorted((REPO_ROOT / "locks").glob("*.lock"))
HEAVY = {"torch", "triton", "sglang", "megatron-core", "transformers", "mooncake-transfer-engine-non-cuda"}


def test_locks_hold_only_exact_versions_and_comments() -> None:
    strange = [
        f"{lock.name}: {line}"
        for lock in LOCKS
        for line in lock.read_text().splitlines()
        if not re.fullmatch(r"#.*|[a-z0-9][a-z0-9.-]*==[0-9][0-9a-z.]*", line)
    ]
    assert strange == []
    assert [lock.stem for lock in LOCKS] == ["cells-cpu", "control-plane", "dev"]


def test_a_package_has_one_version_in_all_locks() -> None:
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        for package, version in pins(lock.stem).items():
            versions.setdefault(package, set()).add(version)
    assert {package: found for package, found in versions.items() if len(found) > 1} == {}


def test_the_control_plane_installs_without_torch() -> None:
    assert HEAVY.isdisjoint(pins("control-plane") | pins("dev"))


def test_every_declared_dependency_is_pinned_by_its_lock_within_the_declared_range() -> None:
    project = tomllib.loads((REPO_ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = {
        "control-plane": project["dependencies"],
        "dev": extras["dev"],
        "cells-cpu": [line for line in extras["cells"] + extras["sglang"] if not line.startswith("torch")],
    }
    for lock, lines in declared.items():
        pinned = pins(lock)
        for requirement in map(Requirement, lines):
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not in {lock}.lock"
            assert requirement.specifier.contains(version), f"{requirement} does not allow {version} of {lock}.lock"


@pytest.mark.parametrize("python", ["3.11.0", "3.11.2", "3.11.99", sys.version.split()[0]])
def test_what_the_packages_of_the_control_plane_need_is_pinned_for_every_python(python: str) -> None:
    pinned = pins("control-plane")
    environment = {"python_full_version": python, "python_version": ".".join(python.split(".")[:2])}
    unpinned = [
        f"{package} needs {needed}"
        for package in pinned
        for needed in requirements(package, environment)
        if not (version := pinned.get(canonicalize_name(needed.name)))
        or not needed.specifier.contains(version, prereleases=True)
    ]
    assert unpinned == []
