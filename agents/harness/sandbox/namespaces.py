"""The few system calls that Python 3.11 does not wrap: namespaces, mounts, capabilities, filters."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
ALL_NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
EACH_NAMESPACE = (
    CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET,
)  # fmt: skip

_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x4_0000
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x2008_0522
_SECCOMP_MODE_FILTER = 2
_BPF_INSTRUCTION_BYTES = 8

_libc = ctypes.CDLL(None, use_errno=True)


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapData(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def join(pidfd: int, namespaces: int = ALL_NAMESPACES) -> None:
    """Enter the namespaces of a process. The PID namespace takes effect for children only."""
    _check(_libc.setns(pidfd, namespaces), "setns")


def private_mounts() -> None:
    """Give this process a mount table of its own, so that what it mounts is seen by no other process."""
    _check(_libc.unshare(CLONE_NEWNS), "unshare of the mount namespace")
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "making mounts private")


def mount_tmpfs(path: Path, options: str) -> None:
    _check(_libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, options.encode()), f"tmpfs on {path}")


def bind(source: Path, dest: Path) -> None:
    _check(_libc.mount(os.fsencode(source), os.fsencode(dest), None, _MS_BIND | _MS_REC, None), f"bind of {source}")


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be waited for."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def give_up_privileges() -> None:
    """No capability now or after any exec, and no set-uid program works. For a process inside a user namespace."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header, data = _CapHeader(_CAPABILITY_VERSION_3, 0), (_CapData * 2)()
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def filter_calls(program: bytes) -> None:
    """Put this process and all that it will start under a BPF program, for good. After `give_up_privileges`."""
    whole = _FilterProgram(len(program) // _BPF_INSTRUCTION_BYTES, program)
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(whole), 0, 0), "seccomp filter")
