"""Programs in a sandbox cannot get past its limits, with control groups and without."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.harness.sandbox import cgroups
from agents.harness.sandbox.base import Exit, Limits
from agents.harness.sandbox.client import SandboxServer
from agents.harness.sandbox.watch import Watch
from tests.security.hostile import MIB, Attack, prepare

MEMORY = Limits(memory_bytes=128 * MIB)
KILLED = 128 + signal.SIGKILL
#: What other programs of the machine may take meanwhile, such as engines of tests beside these. All programs below want
#: 512 MiB, so it would still be seen if they got them.
ELSEWHERE = 256 * MIB

#: Memory that belongs to no process: 512 MiB are wanted.
IN_MEMORY_FILES = """
    import os
    held = [os.memfd_create("x") for _ in range(8)]
    for number in held:
        for _ in range(64):
            os.write(number, bytes(1 << 20))
    print("taken")
"""
SHARED_MAPPINGS = """
    import mmap
    held = []
    for _ in range(8):
        held.append(mmap.mmap(-1, 64 << 20))
        for _ in range(64):
            held[-1].write(bytes(1 << 20))
    print("taken")
"""
SHARED_ZERO_DEVICE = """
    import mmap, os
    held, zero = [], os.open("/dev/zero", os.O_RDWR)
    for _ in range(8):
        held.append(mmap.mmap(zero, 64 << 20))
        for _ in range(64):
            held[-1].write(bytes(1 << 20))
    print("taken")
"""
SEGMENTS = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    for _ in range(8):
        number = libc.shmget(0, 64 << 20, 0o1600)
        if number < 0:
            raise OSError(ctypes.get_errno(), "shmget")
        ctypes.memset(libc.shmat(number, None, 0), 1, 64 << 20)
    print("taken")
"""


@pytest.fixture(scope="module", params=[True, False], ids=["cgroups", "no cgroups"])
def server(request: pytest.FixtureRequest) -> Iterator[SandboxServer]:
    if request.param and cgroups.place() is None:
        pytest.skip("this machine lets no control group be made")
    found = SandboxServer(use_cgroups=request.param)
    Watch(found).start()
    yield found
    found.close()


@pytest.fixture
def attack(server: SandboxServer, tmp_path: Path) -> Attack:
    return prepare(server, tmp_path)


@pytest.fixture
def grown() -> Iterator[list[int]]:
    """Bytes by which files in memory and shared mappings of the whole machine have grown at most, as the only item."""
    before, most, over = _shared(), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            most[0] = max(most[0], _shared() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    yield most
    over.set()
    thread.join()


def _shared() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Shmem:"))


def counted(attack: Attack) -> bool:
    sandbox = attack.start("", Limits())
    sandbox.wait(60)
    return sandbox.cgroup is not None


def test_files_in_dev_shm_stop_at_half_of_the_memory(attack: Attack, grown: list[int]) -> None:
    program = """
        written = 0
        try:
            for number in range(64):
                with open(f"/dev/shm/{number}", "wb", buffering=0) as file:
                    for _ in range(8):
                        written += file.write(bytes(1 << 20))
        except OSError as error:
            print(written >> 20, error.strerror)
    """
    assert attack.run(program, MEMORY) == (Exit(0), ["64 No space left on device"])
    assert grown[0] <= 64 * MIB + ELSEWHERE


def test_nothing_else_below_dev_takes_a_file(attack: Attack) -> None:
    program = """
        import os
        for folder, _, _ in os.walk("/dev"):
            try:
                open(os.path.join(folder, "x"), "w")
            except OSError as error:
                print(folder, error.strerror)
    """
    _, lines = attack.run(program)
    assert "/dev Read-only file system" in lines
    assert {line.split()[0] for line in lines} >= {"/dev", "/dev/pts"}


@pytest.mark.parametrize(
    ("program", "refused"),
    [
        (IN_MEMORY_FILES, "OSError: [Errno 38] Function not implemented"),
        (SHARED_MAPPINGS, "PermissionError: [Errno 1] Operation not permitted"),
        (SHARED_ZERO_DEVICE, "OSError: [Errno 19] No such device"),
        (SEGMENTS, "OSError: [Errno 22] shmget"),
    ],
    ids=["files in memory", "shared mappings", "a shared zero device", "system v segments"],
)
def test_memory_that_belongs_to_no_process_is_counted_or_refused(
    attack: Attack, grown: list[int], program: str, refused: str
) -> None:
    end, lines = attack.run(program, MEMORY)
    if counted(attack):
        assert end == Exit(KILLED, "memory")
        assert "taken" not in lines
    else:
        assert (end, lines[-1]) == (Exit(1), refused)
    assert grown[0] <= MEMORY.memory_bytes + ELSEWHERE


def test_memory_of_many_processes_is_counted_together(attack: Attack) -> None:
    program = """
        import os, time
        for _ in range(8):
            if os.fork() == 0:
                held = b"x" * (40 << 20)
                time.sleep(1000)
        time.sleep(1000)
    """
    assert attack.run(program, MEMORY)[0] == Exit(KILLED, "memory")


def test_many_sockets_full_of_bytes_are_counted_as_memory(attack: Attack) -> None:
    program = """
        import os, socket, time
        for _ in range(8):
            if os.fork() == 0:
                held = [socket.socketpair() for _ in range(200)]
                for one, _ in held:
                    one.setblocking(False)
                    try:
                        while True:
                            one.send(bytes(4096))
                    except BlockingIOError:
                        pass
                time.sleep(1000)
        time.sleep(1000)
    """
    assert attack.run(program, MEMORY)[0] == Exit(KILLED, "memory")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of clone on x86_64")
def test_no_namespace_can_be_made_or_entered(attack: Attack) -> None:
    program = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
            print(libc.unshare(flag), ctypes.get_errno(), end=" ")
            print(libc.syscall(56, flag | 17, 0, 0, 0, 0), ctypes.get_errno(), end=" ")
            print(libc.setns(os.pidfd_open(1), flag), ctypes.get_errno())
    """
    assert attack.run(program) == (Exit(0), ["-1 1 -1 1 -1 1"] * 7)


def test_a_file_system_in_memory_cannot_be_mounted(attack: Attack) -> None:
    program = """
        import subprocess
        for command in (["unshare", "-Urm", "true"], ["mount", "-t", "tmpfs", "x", "/mnt"]):
            print(subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0)
    """
    assert attack.run(program) == (Exit(0), ["True", "True"])


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")
def test_calls_that_reach_past_the_limits_are_refused(attack: Attack) -> None:
    absent = {"io_uring_setup": 425, "clone3": 435, "memfd_secret": 447}
    forbidden = {
        "userfaultfd": 323, "bpf": 321, "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249,
        "fsopen": 430, "open_tree": 428, "move_mount": 429, "mount_setattr": 442, "sched_setaffinity": 203,
    }  # fmt: skip
    program = f"""
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        for name, number in {absent | forbidden}.items():
            libc.syscall(number, 0, 0, 0, 0, 0)
            print(name, errno.errorcode[ctypes.get_errno()])
    """
    expected = [f"{name} ENOSYS" for name in absent] + [f"{name} EPERM" for name in forbidden]
    assert attack.run(program) == (Exit(0), expected)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code of x86_64")
@pytest.mark.parametrize(
    "code", [b"\xb8\x14\x00\x00\x00\xcd\x80\xc3", b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"], ids=["32 bit", "x32"]
)
def test_calls_of_another_architecture_end_the_program(attack: Attack, code: bytes) -> None:
    program = f"""
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
        page.write({code!r})
        print("called", flush=True)
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        print("answered")
    """
    assert attack.run(program) == (Exit(128 + signal.SIGSYS), ["called"])


def test_only_plain_sockets_can_be_opened(attack: Attack) -> None:
    program = """
        import errno, socket
        for family in range(47):
            try:
                socket.socket(family, socket.SOCK_DGRAM).close()
                print(family)
            except OSError as error:
                if error.errno not in (errno.EAFNOSUPPORT, errno.ESOCKTNOSUPPORT):
                    print(family, error)
    """
    _, lines = attack.run(program)
    assert set(lines) <= {"1", "2", "10", "16"}


def test_a_process_cannot_give_itself_more_processors(attack: Attack) -> None:
    program = """
        import os, subprocess
        subprocess.run(["taskset", "-pc", "0-1023", str(os.getpid())], stdout=-3, stderr=-3)
        subprocess.run(["taskset", "0xffff", "nproc"], stderr=-3)
        print(len(os.sched_getaffinity(0)))
    """
    assert attack.run(program, Limits(cpus=1)) == (Exit(0), ["1"])


UNLINKED = """
    import mmap, os, time
    held = []
    for number in range(8):
        file = open(f"/app/{number}", "w+b")
        os.unlink(file.name)
        for _ in range(8):
            file.write(bytes(1 << 20))
        file.flush()
        held.append(HOLD)
    time.sleep(1000)
"""


@pytest.mark.parametrize("hold", ["file", "mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE)"], ids=["open", "mapped"])
def test_files_without_a_name_count_as_disk(attack: Attack, hold: str) -> None:
    if "mmap" in hold and os.geteuid() != 0:
        pytest.skip("only root can see what is mapped and not open")
    end, _ = attack.run(UNLINKED.replace("HOLD", hold), Limits(disk_bytes=20 * MIB))
    assert end == Exit(KILLED, "disk")


def test_zombies_count_as_processes(attack: Attack) -> None:
    program = """
        import os
        count = 0
        try:
            while count < 500:
                if os.fork() == 0:
                    os._exit(0)
                count += 1
        except BlockingIOError as error:
            print(count < 30, error.strerror)
    """
    assert attack.run(program, Limits(processes=30)) == (Exit(0), ["True Resource temporarily unavailable"])


@pytest.mark.parametrize("entered", [True, False], ids=["entered", "own command"])
def test_no_process_of_the_sandbox_is_without_its_limits(attack: Attack, tmp_path: Path, entered: bool) -> None:
    """A process could write into the memory of one that has none."""
    program = """
        import pathlib
        for place in pathlib.Path("/proc").glob("[0-9]*"):
            limits, status = (place / "limits").read_text(), (place / "status").read_text()
            for line in (limits + status).splitlines():
                if line.startswith(("Max data", "Max open", "Max processes", "Seccomp:")):
                    print(" ".join(line.split()))
    """
    options = {"proxy_socket": tmp_path / "none.sock"} if entered else {}
    end, lines = attack.run(program, Limits(processes=17, open_files=200, memory_bytes=MIB << 8), **options)
    expected = {f"Max data size {MIB << 8} {MIB << 8} bytes", "Max processes 17 17 processes"}
    assert end == Exit(0)
    assert len(lines) >= 8
    assert set(lines) == expected | {"Max open files 200 200 files", "Seccomp: 2"}


def test_what_harnesses_and_tasks_use_goes_on_working(attack: Attack) -> None:
    program = """
        import multiprocessing, os, sqlite3, subprocess, threading
        from concurrent.futures import ThreadPoolExecutor
        run = lambda *command: subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        os.chdir("/app")
        run("git", "init", "-q")
        run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
        print(run("git", "log", "--format=%s"))
        database = sqlite3.connect("/tmp/x.db")
        print(*database.execute("pragma journal_mode=wal").fetchone())
        database.execute("create table t (a)")
        with multiprocessing.Pool(2) as pool:
            print(sum(pool.map(abs, [-1, -2])))
        with ThreadPoolExecutor(4) as pool:
            print(sum(pool.map(abs, [-1, -2])))
        print(run("bash", "-c", "cat <(echo 7) | head -c 1; head -c 3 /dev/zero | wc -c"))
        print(run("node", "-p", "1 + 1") if os.path.exists("/usr/bin/node") else 2)
    """
    assert attack.run(program) == (Exit(0), ["x", "wal", "3", "3", "73", "2"])
