"""Debian and Ubuntu packages that the processes need, found by what they provide."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gyreweb.setup.errors import SetupFailed


@dataclass(frozen=True)
class SystemPackage:
    name: str
    why: str
    present: Callable[[], bool]


def missing(packages: Sequence[SystemPackage]) -> list[SystemPackage]:
    return [package for package in packages if not package.present()]


def install_line(packages: Sequence[SystemPackage]) -> str:
    """What a person types to install them."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install -y --no-install-recommends {' '.join(package.name for package in packages)}"


def require(packages: Sequence[SystemPackage], say: Callable[[str], None]) -> None:
    """Install what is missing when root with apt-get, else raise SetupFailed with the line to run."""
    wanted = missing(packages)
    if not wanted:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        reasons = "\n".join(f"  {package.name}: {package.why}" for package in wanted)
        raise SetupFailed(
            f"system packages are missing:\n{reasons}\nInstall them and try again:\n  {install_line(wanted)}"
        )
    names = [package.name for package in wanted]
    say(f"system packages: {', '.join(names)}")
    if not (_apt("install", *names) or (_apt("update") and _apt("install", *names))):
        raise SetupFailed(f"apt-get could not install them; try by hand: {install_line(wanted)}")
    if still := missing(packages):
        raise SetupFailed(f"installed, but still not usable: {', '.join(package.name for package in still)}")


def _apt(action: str, *names: str) -> bool:
    options = ["-y", "--no-install-recommends"] if action == "install" else []
    done = subprocess.run(
        ["apt-get", "-qq", action, *options, *names],
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=False,
    )
    return done.returncode == 0


def _program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _library(soname: str) -> Callable[[], bool]:
    def present() -> bool:
        try:
            ctypes.CDLL(soname)
        except OSError:
            return False
        return True

    return present


def _module(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


VENV = SystemPackage(
    f"python{sys.version_info.major}.{sys.version_info.minor}-venv", "makes .venv", _module("ensurepip")
)
RUNTIME = (
    SystemPackage("bubblewrap", "sandboxes of the agents", _program("bwrap")),
    SystemPackage("libseccomp2", "system call filter of the sandboxes", _library("libseccomp.so.2")),
    SystemPackage("util-linux", "user namespaces and process control", _program("setpriv")),
)
CELLS = (
    SystemPackage("libibverbs1", "weight transfer (mooncake)", _library("libibverbs.so.1")),
    SystemPackage("librdmacm1", "weight transfer (mooncake)", _library("librdmacm.so.1")),
    SystemPackage("libnuma1", "weight transfer and engine", _library("libnuma.so.1")),
    SystemPackage("libcurl4", "weight transfer (mooncake)", _library("libcurl.so.4")),
)
BROWSER = SystemPackage("chromium", "browser tests", _program("chromium", "chromium-browser", "google-chrome"))
