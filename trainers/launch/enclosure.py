"""A network and shared memory of the cells' own, which nothing outside can reach (docs/architecture.md "Listeners").

`unshare … python -m trainers.launch.enclosure [command …]` runs inside new namespaces: it brings up loopback, mounts a
private /dev/shm, serves sockets of this network on a unix socket, and becomes the command. Engines, Mooncake and the
stores of torch listen on whatever they like: no interface leads there. The recording proxy asks for sockets
(agents.proxy.door); Postgres is reached over its own unix socket. When the last process inside ends, in whatever way,
ports and segments of shared memory are gone with the namespaces.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from trainers.launch import processes, wire

SOCKET_NAME = "cells.sock"
PROBE_TIMEOUT_S = 30.0
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_NAMESPACES = ("--net", "--mount", "--propagation", "slave", "--")
#: For who may make namespaces, and for who may only in a user namespace of his own.
PREFIXES = (
    ("unshare", *_NAMESPACES),
    ("unshare", "--user", "--map-current-user", "--keep-caps", *_NAMESPACES),
)
#: What unshare has forked must still end with the supervisor.
DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")


def socket_path(home: Path) -> Path:
    return home / "run" / SOCKET_NAME


def find_prefix() -> tuple[tuple[str, ...], str]:
    """What makes namespaces here, tried with all that is done inside; or nothing, and why."""
    why = ""
    for prefix in PREFIXES:
        try:
            done = subprocess.run(
                [*prefix, sys.executable, "-m", "trainers.launch.enclosure"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_S,
                cwd=Path(__file__).resolve().parents[2],
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return (), str(error)
        if done.returncode == 0:
            return (*prefix, *DIES_WITH_PARENT), ""
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return (), why


def enter() -> None:
    """Inside fresh namespaces: loopback up, shared memory of our own. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request), 16)[0]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
    mount = ["mount", "-t", "tmpfs", "-o", "mode=1777,nosuid,nodev", "tmpfs", "/dev/shm"]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"/dev/shm: {done.stderr.strip()}")
    ctypes.CDLL(None, use_errno=True).prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def serve_sockets(path: Path) -> None:
    """Hand every caller a fresh TCP socket of this network, for ever."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with wire.short_name(path) as name:
            listener.bind(name)
        path.chmod(0o600)
        listener.listen(1024)
        while True:
            caller, _ = listener.accept()
            with caller, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as fresh, contextlib.suppress(OSError):
                socket.send_fds(caller, [b"s"], [fresh.fileno()])


def main(command: list[str]) -> int:
    try:
        enter()
    except OSError as error:
        print(f"no network of the cells' own: {error}", file=sys.stderr)
        return 1
    if not command:
        return 0
    path, parent = socket_path(Path(os.environ["GYRE_HOME"])), os.getpid()
    if os.fork() == 0:
        processes.die_with_parent(parent)
        os.closerange(3, 64)
        serve_sockets(path)
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
