"""Control groups for sandboxes, where this machine lets Gyre make them: version 2, else the memory group of version 1.

They count what no limit on a process counts: the memory of all processes together with that of files in memory, shared
mappings, pipes and sockets. Groups of a server lie below one directory named after it, so that what a dead server left
is recognised by the next.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.harness.sandbox.processes import is_running, start_ticks

_PREFIX = "gyre-sandboxes-"
_REMOVAL_TIMEOUT_S = 5.0
_WANTED = ("memory", "pids", "cpu")
_PERIOD_US = 100_000
#: Beside what the task may take: bubblewrap, page tables, pipes. One process that wants all of its memory is so
#: refused more by its own limit, which a program can handle, than ended by the group's.
_FRAME_BYTES = 16 << 20


@dataclass(frozen=True)
class Cgroup:
    """The group of one sandbox."""

    path: Path
    version: int

    @property
    def procs(self) -> Path:
        """Where a process writes 0 to be in it, with all that it will start."""
        return self.path / "cgroup.procs"

    def num_memory_kills(self) -> int:
        """How many processes the kernel has ended because the group was at its limit."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)$", (self.path / name).read_text(), re.MULTILINE)
            return int(found[1]) if found else 0
        return 0

    def remove(self) -> None:
        """When nothing runs in it."""
        _remove(self.path)


@dataclass(frozen=True)
class Groups:
    """All groups of one sandbox server; `held` are the limits that they hold."""

    place: Path
    version: int
    held: frozenset[str]

    def create(self, number: int) -> Cgroup:
        path = self.place / str(number)
        path.mkdir()
        return Cgroup(path, self.version)

    def limit(self, cgroup: Cgroup, limits: dict[str, Any]) -> None:
        """`limits` are those of a spec message."""
        for name, value in self._settings(limits).items():
            (cgroup.path / name).write_text(str(value))

    def _settings(self, limits: dict[str, Any]) -> dict[str, object]:
        size = limits["memory_bytes"] + _FRAME_BYTES
        if self.version == 1:
            swap = {"memory.memsw.limit_in_bytes": size}
            known = (self.place / "memory.memsw.limit_in_bytes").exists()
            return {"memory.limit_in_bytes": size} | (swap if known else {})
        found: dict[str, object] = {"memory.max": size, "memory.oom.group": 1}
        if (self.place / "memory.swap.max").exists():
            found["memory.swap.max"] = 0
        if "pids" in self.held:
            found["pids.max"] = limits["processes"] + 4  # bubblewrap's own beside them
        if "cpu" in self.held and limits["cpus"]:
            found["cpu.max"] = f"{limits['cpus'] * _PERIOD_US} {_PERIOD_US}"
        return found

    def remove(self) -> None:
        """With all groups in it. Those who run in them must have been killed."""
        deadline = time.monotonic() + _REMOVAL_TIMEOUT_S
        while not _remove_tree(self.place) and time.monotonic() < deadline:
            time.sleep(0.01)


def open_groups() -> Groups | None:
    """Groups for the sandboxes of this process; None where the machine does not let it make them."""
    for parent, version, held in _parents():
        _remove_left(parent)
        place = parent / f"{_PREFIX}{os.getpid()}-{start_ticks(os.getpid())}"
        try:
            place.mkdir()
            if version == 2:
                _hand_down(place, held)
            groups = Groups(place, version, held)
            probe = groups.create(0)
            groups.limit(probe, {"memory_bytes": 1 << 30, "processes": 1, "cpus": 1})
            probe.remove()
        except OSError:
            _remove_tree(place)
            continue
        return groups
    return None


def remove_of(pid: int) -> None:
    """Delete the groups of a server that is dead, where this process finds them."""
    for parent, version, held in _parents():
        for place in parent.glob(f"{_PREFIX}{pid}-*"):
            _kill_all(place)
            Groups(place, version, held).remove()


def _parents() -> Iterator[tuple[Path, int, frozenset[str]]]:
    """Directories below which groups may be made, with version and controllers, best first."""
    own, mounts = _own_paths(), list(_mounts())
    for mount, inside, kind, _options in mounts:
        if kind == "cgroup2" and "" in own:
            for parent in (_below(mount, inside, own[""]), *([mount] if os.geteuid() == 0 else [])):
                if held := _usable(parent):
                    yield parent, 2, held
    for mount, inside, kind, options in mounts:
        if kind == "cgroup" and "memory" in options and "memory" in own:
            parent = _below(mount, inside, own["memory"])
            if os.access(parent, os.W_OK):
                yield parent, 1, frozenset({"memory"})


def _own_paths() -> dict[str, str]:
    """The group of this process per controller of version 1; of version 2 under the empty name."""
    found = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _mounts() -> Iterator[tuple[Path, str, str, list[str]]]:
    """Mounted hierarchies: where, which part of it, kind, options (mountinfo in proc(5))."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            _, _, _, root, place, *_ = fields.split(" ")
            yield Path(place), root, kind, options.split(",")


def _below(mount: Path, inside: str, own: str) -> Path:
    return mount / os.path.relpath(own, inside) if own.startswith(inside) else mount / own.lstrip("/")


def _usable(parent: Path) -> frozenset[str]:
    """The controllers that children of a group of version 2 can have, if memory is among them."""
    try:
        if not os.access(parent, os.W_OK):
            return frozenset()
        offered = set((parent / "cgroup.controllers").read_text().split())
        given = set((parent / "cgroup.subtree_control").read_text().split())
        wanted = offered.intersection(_WANTED)
        if "memory" not in wanted:
            return frozenset()
        if not wanted <= given and (_is_ours(parent) or "memory" not in given):
            _make_room(parent)
            _hand_down(parent, wanted)
            given |= wanted
        return frozenset(wanted & given)
    except OSError:
        return frozenset()


def _hand_down(parent: Path, controllers: set[str] | frozenset[str]) -> None:
    (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))


def _is_ours(parent: Path) -> bool:
    """Whether a service manager (`Delegate=yes`) or a container gave it away: else its inner order is not ours."""
    with contextlib.suppress(OSError):
        return os.getxattr(parent, "user.delegate") == b"1"
    return os.path.ismount(parent) if os.geteuid() == 0 else parent.stat().st_uid == os.geteuid()


def _make_room(parent: Path) -> None:
    """A group that hands controllers down may hold no process itself: they move one step down."""
    if not (parent / "cgroup.type").exists():  # the root of all
        return
    if not _is_ours(parent):
        raise PermissionError(f"{parent} belongs to the service manager")
    rest = parent / "gyre-rest"
    rest.mkdir(exist_ok=True)
    for pid in (parent / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (rest / "cgroup.procs").write_text(pid)


def _remove_left(parent: Path) -> None:
    """What servers left that were killed."""
    for place in parent.glob(f"{_PREFIX}*"):
        pid, _, start = place.name.removeprefix(_PREFIX).partition("-")
        if not is_running(int(pid), int(start)):
            _kill_all(place)
            _remove_tree(place)


def _kill_all(place: Path) -> None:
    """What runs on in the groups of a dead server: a sandbox that was about to start outlives it now and then."""
    for procs in place.glob("*/cgroup.procs"):
        with contextlib.suppress(OSError):  # the group, or a process, has gone
            for pid in procs.read_text().split():
                os.kill(int(pid), signal.SIGKILL)


def _remove_tree(place: Path) -> bool:
    with contextlib.suppress(OSError):
        for child in place.iterdir():
            if child.is_dir():
                _remove(child)
    return _remove(place)


def _remove(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()


def place() -> tuple[Path, int, frozenset[str]] | None:
    """Where a server of this process would make groups, their version and what they hold; None if nowhere."""
    groups = open_groups()
    if groups is None:
        return None
    groups.remove()
    return groups.place.parent, groups.version, groups.held
