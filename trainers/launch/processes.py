"""Forking, naming and ending the processes of a cell. A child dies with its parent, and its group with it."""

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
POLL_S = 0.02


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent ends, also if that happened already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def fork_child(title: str, log_path: Path, body: Callable[[], int]) -> int:
    """Fork `body` into its own process group with standard output and error in `log_path`. Returns the pid."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    parent_pid = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    # Nothing may return from here into the parent's code: its cleanup would end the parent's other children.
    status = 1
    try:
        _become_child(parent_pid, title, log_path)
        status = _run(body)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _become_child(parent_pid: int, title: str, log_path: Path) -> None:
    die_with_parent(parent_pid)
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    _name(title)


def _run(body: Callable[[], int]) -> int:
    try:
        return body()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1


def _name(title: str) -> None:
    with contextlib.suppress(ImportError):
        import setproctitle

        setproctitle.setproctitle(title)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def has_ended(pid: int) -> bool:
    """Whether child `pid` is dead. It is not reaped, so its number cannot pass to another process yet."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def end_group(pid: int, grace_s: float = 0.0) -> None:
    """End child `pid` and the group it leads: SIGTERM and `grace_s` to obey, then SIGKILL; reap it."""
    if grace_s:
        _signal_group(pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while not has_ended(pid) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    _signal_group(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def ask_to_end(pid: int) -> None:
    """SIGTERM to the group of child `pid`."""
    _signal_group(pid, signal.SIGTERM)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the group that child `pid` leads, and itself in case it has not made its group yet.

    Only before the child is reaped: afterwards the number may belong to a stranger.
    """
    for send in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)
