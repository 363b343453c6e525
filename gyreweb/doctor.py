"""What this machine has and lacks for Gyre, and what to do about it. Used by `manage.py doctor`."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agents.harness.sandbox import check as sandbox_check
from agents.room import Gauge
from gyreweb import embedded, env, homefolder, locked, reach, variables
from gyreweb.embedded import ports
from gyreweb.embedded.postgres import in_user_namespace
from gyreweb.setup import system
from gyreweb.supervisor import cellnetwork, record
from trainers.launch import enclosure

GIB = 1024**3
MIN_DISK_GIB = 5
MIN_MEMORY_GIB = 6
MIN_CORES = 2


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Finding:
    """`remedy` says what to do; it is empty when there is nothing to do."""

    subject: str
    level: Level
    detail: str
    remedy: str = ""


def examine() -> Iterator[Finding]:
    """Every check, in the order in which a person would mend things."""
    for check in CHECKS:
        yield from check()


def _variables() -> Iterator[Finding]:
    for wrong in variables.problems():
        yield Finding("environment", Level.MISSING, wrong, "change or unset it")


def _python() -> Iterator[Finding]:
    version = sys.version.split()[0]
    good = sys.version_info[:2] == (3, 11)
    remedy = "" if good else "the locks are made for Python 3.11: run `make setup PYTHON=python3.11`"
    yield Finding("python", Level.OK if good else Level.WARNING, version, remedy)


def _packages() -> Iterator[Finding]:
    for lock, level in (("control-plane", Level.MISSING), ("cells-cpu", Level.MISSING), ("dev", Level.WARNING)):
        wrong = []
        for name, pinned in locked.pins(lock).items():
            try:
                found = importlib.metadata.version(name).split("+")[0]
            except importlib.metadata.PackageNotFoundError:
                found = "not installed"
            if found != pinned:
                wrong.append(f"{name} {found}, not {pinned}")
        command = "make setup-dev" if lock == "dev" else "make setup"
        detail = f"{len(wrong)} differ: {'; '.join(wrong[:3])}" if wrong else f"as in {lock}.lock"
        yield Finding(f"packages {lock}", level if wrong else Level.OK, detail, f"run `{command}`" if wrong else "")


def _requirements() -> Iterator[Finding]:
    """Of the control plane only: of torch and the engine some pins are left aside on purpose."""
    if missing := locked.not_installed("control-plane"):
        names = " ".join(f"'{line.partition(' for ')[0]}'" for line in missing)
        remedy = f"report this; meanwhile: `.venv/bin/python -m pip install {names}`"
        yield Finding("requirements", Level.MISSING, f"not installed: {'; '.join(missing)}", remedy)
    else:
        yield Finding("requirements", Level.OK, "complete")


def _torch() -> Iterator[Finding]:
    try:
        yield Finding("torch", Level.OK, importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        yield Finding("torch", Level.MISSING, "not installed", "run `make setup`")


def _system_packages() -> Iterator[Finding]:
    for package in (*system.RUNTIME, *system.CELLS):
        if package.present():
            yield Finding(package.name, Level.OK, package.why)
        else:
            yield Finding(package.name, Level.MISSING, f"missing: {package.why}", system.install_line([package]))
    if system.BROWSER.present():
        yield Finding(system.BROWSER.name, Level.OK, system.BROWSER.why)
    else:
        yield Finding(
            system.BROWSER.name, Level.WARNING, "missing: browser tests", system.install_line([system.BROWSER])
        )


def _npm() -> Iterator[Finding]:
    found = shutil.which("npm")
    if found:
        yield Finding("npm", Level.OK, found)
    else:
        remedy = "for the harnesses claude-code, codex, opencode and qwen-code: `apt-get install -y nodejs npm`"
        yield Finding("npm", Level.WARNING, "not found", remedy)


def _namespaces() -> Iterator[Finding]:
    remedy = (
        "allow user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1` (Debian), "
        "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu), or run the container with "
        "`--security-opt seccomp=unconfined`"
    )
    yield _sandbox(remedy)
    yield from _sandbox_limits()
    if prefix := in_user_namespace():
        yield _runs("user namespace (Postgres as root)", (*prefix, "true"), remedy)


def _sandbox(remedy: str) -> Finding:
    """Makes a real one, as executions do."""
    home = env.home()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        problem = sandbox_check.problem(home)
    except OSError as error:
        problem = str(error)
    if problem:
        return Finding("sandbox", Level.MISSING, problem, remedy)
    return Finding("sandbox", Level.OK, "works")


def _sandbox_limits() -> Iterator[Finding]:
    for limit, holder in sandbox_check.held_by().items():
        sampled = limit == "memory" and "control group" not in holder
        remedy = (
            "for an exact limit run Gyre where it may make control groups: as root, or by "
            "`systemd-run --user --scope -p Delegate=yes make up`"
        )
        level = Level.WARNING if sampled else Level.OK
        yield Finding(f"sandbox limit: {limit}", level, holder, remedy if sampled else "")


def _machine() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    yield Finding("cores", Level.OK if cores >= MIN_CORES else Level.WARNING, str(cores))
    memory = _available_memory() / GIB
    yield Finding(
        "memory",
        Level.OK if memory >= MIN_MEMORY_GIB else Level.WARNING,
        f"{memory:.1f} GiB available",
        "" if memory >= MIN_MEMORY_GIB else f"quickstart wants {MIN_MEMORY_GIB} GiB: close other programs",
    )


def _home() -> Iterator[Finding]:
    home = env.home()
    existing = next(path for path in (home, *home.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        yield Finding("GYRE_HOME", Level.MISSING, f"{home} is not writable", "set GYRE_HOME to a directory of yours")
        return
    free = shutil.disk_usage(existing).free / GIB
    good = free >= MIN_DISK_GIB
    remedy = "" if good else f"free {MIN_DISK_GIB} GiB, or set GYRE_HOME to another disk"
    yield Finding("GYRE_HOME", Level.OK if good else Level.WARNING, f"{home}, {free:.0f} GiB free", remedy)
    gauge = Gauge(home)
    if gauge.measure():
        yield Finding("disk", Level.MISSING, gauge.message, "free some space, or set GYRE_HOME to another disk")
    if home.exists() and homefolder.is_open(home):
        yield Finding("GYRE_HOME mode", Level.WARNING, f"{home} can be read by other users", f"`chmod 700 {home}`")


def _ports() -> Iterator[Finding]:
    if record.is_held(env.home()):
        mine = record.read(env.home())
        yield Finding("ports", Level.OK, f"in use by the Gyre that runs here{f': {mine.web}' if mine else ''}")
        return
    for variable, port in (("GYRE_WEB_PORT", env.web_port()), ("GYRE_PROXY_PORT", env.proxy_port())):
        if ports.is_free(port):
            yield Finding(variable, Level.OK, f"{port} is free")
        else:
            yield Finding(variable, Level.MISSING, f"{port} is taken", f"set {variable} to a free port")


def _listeners() -> Iterator[Finding]:
    """Who can reach what listens here (docs/architecture.md "Listeners")."""
    host = env.text("GYRE_HOST", ports.LOOPBACK)
    if reach.is_loopback(host):
        yield Finding("dashboard", Level.OK, f"listens on {host}: only this machine reaches it")
    else:
        https, behind_proxy = env.https(), env.behind_proxy()
        problem = reach.problem_with_host(host) or reach.problem_with_plain_http(host, https, behind_proxy)
        level = Level.MISSING if problem else Level.WARNING
        yield Finding(
            "dashboard", level, problem or f"listens on {host}: other machines reach it", "see the text above"
        )
    yield _cell_network()


def _cell_network() -> Finding:
    subject, remedy = "network of the cells", "see GYRE_CELL_NETWORK in docs/configuration.md, and keep a firewall"
    if env.text(cellnetwork.VARIABLE) == cellnetwork.SHARED_WORD:
        return Finding(subject, Level.WARNING, f"shared by {cellnetwork.VARIABLE}: {cellnetwork.OPEN_PORTS}", remedy)
    prefix, why = enclosure.find_prefix()
    if env.text(embedded.DATABASE_VARIABLE):
        prefix, why = (), f"{embedded.DATABASE_VARIABLE} names a database that is reached over the network"
    if prefix:
        return Finding(subject, Level.OK, "their own: no interface leads to their ports")
    public = reach.public_addresses()
    detail = f"cannot be their own ({why}): {cellnetwork.OPEN_PORTS}"
    return Finding(subject, Level.MISSING if public else Level.WARNING, detail, remedy)


def _servers() -> Iterator[Finding]:
    try:
        with embedded.servers() as urls:
            hosts = ", ".join(url.rsplit("@", 1)[-1] for url in (urls.database, urls.redis))
            yield Finding("Postgres and Valkey", Level.OK, hosts)
    except embedded.EmbeddedError as error:
        yield Finding("Postgres and Valkey", Level.MISSING, str(error), "see the text above")


def _runs(subject: str, command: tuple[str, ...], remedy: str) -> Finding:
    if shutil.which(command[0]) is None:
        return Finding(subject, Level.MISSING, f"{command[0]} is not installed", "see above")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    if done.returncode == 0:
        return Finding(subject, Level.OK, "works")
    return Finding(subject, Level.MISSING, done.stderr.strip() or f"exit code {done.returncode}", remedy)


def _available_memory() -> int:
    """Bytes that can be used without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python, _variables, _packages, _requirements, _torch, _system_packages, _npm, _namespaces, _machine, _home, _ports,
    _listeners, _servers,
)  # fmt: skip
