"""What is the same in every sandbox: `/etc` without anything secret, and the frame of `/logs`."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from agents.core.outcome import Reason
from agents.harness.sandbox.base import SandboxError, User
from agents.harness.taskformat.paths import why_no_user

#: From the host: what programs need to find libraries, names, time zones and certificates.
_FROM_HOST = (
    "alternatives", "bash.bashrc", "debian_version", "gai.conf", "inputrc", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "locale.alias", "localtime", "magic", "mime.types", "networks", "nsswitch.conf", "os-release",
    "profile", "protocols", "rpc", "services", "ssl/certs", "ssl/openssl.cnf", "ca-certificates.conf", "timezone",
)  # fmt: skip
LOG_FOLDERS = ("agent", "verifier", "artifacts")
#: Only a verifier has something there. Every sandbox has the places: none that an agent works in can bend them.
VERIFIER_HOME = "/logs/home"
VERIFIER_STARTUP = "/logs/startup"
_lock = threading.Lock()


def etc(home: Path, user: User) -> Path:
    """A directory for `/etc`, made once per user name."""
    if reason := why_no_user(user.name):
        raise SandboxError(Reason.SANDBOX_NEVER_HEALTHY, reason)
    place = home / "run" / "sandbox" / f"etc-{user.name}-{user.uid}"
    with _lock:
        if not place.is_dir():
            _make(place, lambda fresh: _fill_etc(fresh, user))
    return place


def logs(home: Path) -> Path:
    """A directory for `/logs` with the places on which each execution's own directories are shown."""
    place = home / "run" / "sandbox" / "logs-with-home"
    with _lock:
        if not place.is_dir():
            _make(place, _fill_logs)
    return place


def _make(place: Path, fill: Callable[[Path], None]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=place.parent))
    fresh.chmod(0o755)
    fill(fresh)
    try:
        fresh.rename(place)
    except OSError:  # another worker was faster
        shutil.rmtree(fresh)


def _fill_logs(place: Path) -> None:
    for name in (*LOG_FOLDERS, Path(VERIFIER_HOME).name, Path(VERIFIER_STARTUP).name):
        (place / name).mkdir(mode=0o755)


def _fill_etc(place: Path, user: User) -> None:
    for name in _FROM_HOST:
        source, dest = Path("/etc", name), place / name
        dest.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, dest, symlinks=True)
        elif source.is_symlink() and str(source.readlink()).startswith(("/usr", "../usr")):
            dest.symlink_to(source.readlink())
        elif os.access(source, os.R_OK):
            shutil.copyfile(source, dest)
    people = {"root": (0, "/root"), user.name: (user.uid, user.home), "nobody": (65_534, "/nonexistent")}
    lines = [f"{name}:x:{uid}:{uid}:{name}:{home}:/bin/bash" for name, (uid, home) in people.items()]
    files = {
        "passwd": lines,
        "group": [f"{name}:x:{uid}:" for name, (uid, _) in people.items()],
        "hosts": ["127.0.0.1 localhost sandbox", "::1 localhost"],
        "hostname": ["sandbox"],
        "resolv.conf": [],
    }
    for name, rows in files.items():
        (place / name).write_text("".join(f"{row}\n" for row in rows))
