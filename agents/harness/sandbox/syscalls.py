"""Which system calls processes in a sandbox may make: one BPF program for all sandboxes of a server, by libseccomp.

What is refused either takes memory, files or processors that no limit counts, or reaches past the sandbox's own
namespaces. A program of another architecture (32 bit, x32) is ended: its calls have other numbers.
"""

from __future__ import annotations

import errno
import mmap
import os
import socket
from typing import Any

from agents.core.outcome import Reason
from agents.harness.sandbox import namespaces
from agents.harness.sandbox.base import SandboxError

_OTHER_NAMESPACES = ("unshare", "setns")
_MOUNTS = (
    "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount", "mount_setattr",
    "fsopen", "fsconfig", "fsmount", "fspick",
)  # fmt: skip
_KERNEL = ("bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "fanotify_init", "kcmp")
#: Held to the processors that they were started on.
_PROCESSORS = ("sched_setaffinity",)
#: As on a kernel without them: programs then use something else. The flags of clone3 lie in memory, where no filter
#: can look, and io_uring makes calls that no filter sees; what memfd_secret takes cannot be reclaimed.
_ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_secret")

_HUGE_PAGES = {"mmap": (3, 0x4_0000), "shmget": (2, 0o4000), "memfd_create": (1, 0x4)}
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
#: Where nothing counts System V segments: the kernel allows 4,096 of them.
_LARGEST_SEGMENT = 4096


def program(memory_is_counted: bool) -> bytes:
    """The BPF program. Without a control group, memory that belongs to no process and no sized mount is refused too:
    nothing else bounds it. Programs then take files in /dev/shm, which is sized.
    """
    seccomp = _library()
    rules = seccomp.SyscallFilter(seccomp.ALLOW)

    def refuse(number: int, name: str, *conditions: Any) -> None:
        if seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) != -1:  # known on this architecture
            rules.add_rule(seccomp.ERRNO(number), name, *conditions)

    def has(argument: int, bits: int) -> Any:
        return seccomp.Arg(argument, seccomp.MASKED_EQ, bits, bits)

    for name in (*_OTHER_NAMESPACES, *_MOUNTS, *_KERNEL, *_PROCESSORS):
        refuse(errno.EPERM, name)
    for name in _ABSENT:
        refuse(errno.ENOSYS, name)
    for flag in namespaces.EACH_NAMESPACE:
        refuse(errno.EPERM, "clone", has(0, flag))
    for name, (argument, bits) in _HUGE_PAGES.items():
        if memory_is_counted or name != "memfd_create":
            refuse(errno.EPERM, name, has(argument, bits))
    # Other families, of virtual machines above all, know no network namespace.
    for family in set(range(max(_FAMILIES))) - set(_FAMILIES):
        refuse(errno.EAFNOSUPPORT, "socket", seccomp.Arg(0, seccomp.EQ, family))
    refuse(errno.EAFNOSUPPORT, "socket", seccomp.Arg(0, seccomp.GT, max(_FAMILIES)))
    if not memory_is_counted:
        refuse(errno.ENOSYS, "memfd_create")
        refuse(errno.EPERM, "mmap", has(3, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
        refuse(errno.EINVAL, "shmget", seccomp.Arg(1, seccomp.GT, _LARGEST_SEGMENT))
    return _exported(rules)


def _library() -> Any:
    try:
        import pyseccomp
    except RuntimeError as error:
        raise SandboxError(
            Reason.SANDBOX_NEVER_HEALTHY, "libseccomp is not installed: apt-get install libseccomp2"
        ) from error
    return pyseccomp


def _exported(rules: Any) -> bytes:
    with os.fdopen(os.memfd_create("filter"), "r+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
