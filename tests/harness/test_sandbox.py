"""What processes in a sandbox can see, reach and use."""

from __future__ import annotations

import os
import signal
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import not_
from pathlib import Path

import pytest

from agents.core.outcome import Reason
from agents.harness.sandbox.base import MARKS, Exit, Limits, SandboxError, SandboxSpec, User
from agents.harness.sandbox.check import problem
from agents.harness.sandbox.client import Sandbox, SandboxServer
from agents.harness.sandbox.processes import kill_if_same, start_ticks
from agents.harness.sandbox.watch import Watch
from agents.harness.sandbox.workspace import Workspace, read_log, read_untrusted
from agents.harness.taskformat.dockerfile import Image
from tests.harness.watching import in_namespace
from tests.support.waiting import PATIENCE_S, wait_for

Run = Callable[..., tuple[Exit, str]]


@pytest.fixture(scope="module", autouse=True)
def _watched(server: SandboxServer) -> None:
    Watch(server).start()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Below a directory of mode 0700."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    found = Workspace(home, home / "executions" / "attempt")
    found.create(Image(), tmp_path, User(), "do it")
    return found


def spec_of(workspace: Workspace, script: str, user: User | None = None, **options: object) -> SandboxSpec:
    who = user or User()
    spec = SandboxSpec(
        area=workspace.area,
        root=workspace.root,
        log=workspace.agent_log,
        command=("/bin/bash", "-c", script),
        binds=workspace.agent_binds(who),
        env={"PATH": "/usr/bin:/bin", "HOME": who.home},
        user=who,
    )
    return replace(spec, **options)  # type: ignore[arg-type]


def wait_for_files(workspace: Workspace, *names: str, patience_s: float = PATIENCE_S) -> None:
    def missing() -> list[str]:
        return [name for name in names if not (workspace.root / "app" / name).exists()]

    wait_for(missing, "no file is missing", patience_s, until=not_)


@pytest.fixture
def run(server: SandboxServer, workspace: Workspace) -> Run:
    def run(script: str, **options: object) -> tuple[Exit, str]:
        end = server.start(spec_of(workspace, script, **options)).wait(60)  # type: ignore[arg-type]
        assert end is not None
        log = read_log(workspace.agent_log)
        workspace.agent_log.unlink(missing_ok=True)
        return end, log

    return run


@pytest.fixture
def proxy_socket(tmp_path: Path) -> Iterator[Path]:
    """Something that answers on a unix socket."""

    class Echo(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"heard " + self.rfile.readline())

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    path = tmp_path / "proxy.sock"
    with Server(str(path), Echo) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield path
        listening.shutdown()


def running(server: SandboxServer, spec: SandboxSpec) -> Sandbox:
    sandbox = server.start(spec)
    sandbox.wait_started(60)
    return sandbox


def test_the_literal_paths_of_the_task_format_are_there_and_writable(run: Run) -> None:
    places = "/app /tests /logs/agent /logs/verifier /logs/artifacts /tmp /var/tmp ~"
    end, log = run(f"pwd; for place in {places}; do touch $place/x || exit 1; done")
    assert (end, log) == (Exit(0), "/app\n")


def test_the_exit_code_is_the_commands_own(run: Run) -> None:
    assert run("exit 7")[0] == Exit(7)
    assert run("kill -9 $$")[0] == Exit(128 + signal.SIGKILL)


def test_the_user_is_unprivileged_inside_and_outside(run: Run, workspace: Workspace) -> None:
    _, log = run("id -un; id -u; grep -E 'Cap(Eff|Prm|Bnd)|NoNewPrivs' /proc/self/status; touch /app/mine")
    name, uid, *status = log.split()
    assert (name, uid) == ("agent", "1000")
    assert {value for value in status if set(value) <= set("0123456789abcdef")} <= {"0" * 16, "1"}
    assert (workspace.root / "app" / "mine").stat().st_uid != 0


def test_a_task_may_ask_for_root_which_has_no_privilege(run: Run) -> None:
    _, log = run(
        "id -u; echo $HOME; mount -t tmpfs x /mnt 2>&1 | head -c 6; echo; chown 5 /app 2>&1 | head -c 5",
        user=User("root", 0),
    )
    assert log.split() == ["0", "/root", "mount:", "chown"]


def test_the_system_is_read_only_and_the_host_is_out_of_sight(run: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    _, log = run(
        f"cat {tmp_path}/secret /etc/shadow; ls /home; for p in /usr /usr/bin /bin /lib /etc /logs; do touch $p/x; done"
    )
    assert log.count("No such file") == 2
    assert log.count("Read-only file system") == 6
    assert "agent" in log.splitlines()


def test_only_its_own_processes_are_visible(run: Run) -> None:
    _, log = run("ls /proc | grep -c '^[0-9]'; hostname")
    count, name = log.split()
    assert int(count) < 8
    assert name == "sandbox"


def test_the_environment_is_what_the_spec_says(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://secret")
    _, log = run("env | cut -d= -f1 | sort | tr '\\n' ' '; cat /proc/*/environ | tr '\\0' '\\n' | grep -c secret")
    assert log.split() == ["HOME", "PATH", "PWD", "SHLVL", "_", "0"]


def test_the_sandbox_server_knows_no_secret(server: SandboxServer, run: Run) -> None:
    run("true")
    assert server.process_id is not None
    names = {item.split("=")[0] for item in Path(f"/proc/{server.process_id}/environ").read_text().split("\0") if item}
    assert names <= {"HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "PATH", "PYTHONPATH", "GYRE_SANDBOX_UID",
                     "LITELLM_LOCAL_MODEL_COST_MAP", "LC_CTYPE", *MARKS}  # fmt: skip


def test_there_is_no_network_but_the_proxy(run: Run, proxy_socket: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        script = (
            f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&1 | grep -m1 -o refused;"
            "(exec 3<>/dev/tcp/1.1.1.1/53) 2>&1 | grep -m1 -o unreachable;"
            "tail -n +3 /proc/net/dev | cut -d: -f1;"
            "exec 5<>/dev/tcp/127.0.0.1/8080; echo hello >&5; cat <&5"
        )
        end, log = run(script, proxy_socket=proxy_socket)
    assert (end, log.split()) == (Exit(0), ["refused", "unreachable", "lo", "heard", "hello"])


def test_commands_can_have_a_terminal_of_their_own(run: Run) -> None:
    end, log = run("script -qec 'tty; tty' /dev/null")
    assert (end, log.split()) == (Exit(0), ["/dev/pts/0", "/dev/pts/0"])


def test_without_a_proxy_nothing_listens(run: Run) -> None:
    _, log = run("(exec 5<>/dev/tcp/127.0.0.1/8080) 2>&1 | grep -m1 -o refused")
    assert log.split() == ["refused"]


def test_a_call_waits_for_a_proxy_that_is_away(server: SandboxServer, workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "late.sock"
    script = "exec 5<>/dev/tcp/127.0.0.1/8080; touch /app/connected; cat <&5"
    sandbox = running(server, spec_of(workspace, script, proxy_socket=path))
    wait_for((workspace.root / "app" / "connected").exists, "the sandbox is connected")
    with socket.socket(socket.AF_UNIX) as late:
        late.bind(str(path))
        late.listen()
        peer, _ = late.accept()
        peer.sendall(b"at last")
        peer.close()
    assert sandbox.wait(60) == Exit(0)
    assert read_log(workspace.agent_log) == "at last"


def test_stopping_kills_every_process_and_keeps_the_files(server: SandboxServer, workspace: Workspace) -> None:
    stubborn = "trap '' TERM INT; touch /app/part; while :; do sleep 1; done"
    script = f"(setsid sh -c 'echo $$ > /app/pid; sleep 1000' &); {stubborn}"
    sandbox = running(server, spec_of(workspace, script))
    wait_for_files(workspace, "pid", "part")
    assert in_namespace(sandbox.pid_namespace)
    server.stop(sandbox)
    assert sandbox.wait(60) == Exit(128 + signal.SIGKILL, "killed")
    assert in_namespace(sandbox.pid_namespace) == []
    assert (workspace.root / "app" / "part").exists()


def test_what_outlives_the_command_dies_with_it(
    server: SandboxServer, workspace: Workspace, proxy_socket: Path
) -> None:
    for socket_path in (None, proxy_socket):
        spec = spec_of(workspace, "(setsid sleep 1000 &); exit 0", proxy_socket=socket_path)
        sandbox = running(server, spec)
        assert sandbox.wait(60) == Exit(0)
        assert in_namespace(sandbox.pid_namespace) == []


def test_a_fork_bomb_stays_within_its_limit(server: SandboxServer, workspace: Workspace) -> None:
    bomb = ":(){ :|:& };: 2>/dev/null; while :; do sleep 0.2; done"
    spec = spec_of(workspace, bomb, limits=Limits(processes=40))
    sandbox = running(server, spec)
    wait_for(lambda: in_namespace(sandbox.pid_namespace), "the bomb goes off", until=lambda found: len(found) > 10)
    assert len(in_namespace(sandbox.pid_namespace)) <= 44
    server.stop(sandbox)
    assert sandbox.wait(60) is not None
    assert in_namespace(sandbox.pid_namespace) == []


def test_limits_on_processes_count_per_sandbox(server: SandboxServer, workspace: Workspace) -> None:
    few = Limits(processes=12)
    script = "for i in 1 2 3 4 5 6 7; do sleep 1000 & done; touch /app/$0; wait"
    sandboxes = []
    for name in ("a", "b", "c"):
        spec = spec_of(workspace, "", limits=few)
        sandboxes.append(running(server, replace(spec, command=("/bin/bash", "-c", script, name))))
    wait_for_files(workspace, *"abc")
    for sandbox in sandboxes:
        server.stop(sandbox)
        sandbox.wait(60)
    assert "fork" not in read_log(workspace.agent_log)


@pytest.mark.parametrize(
    ("script", "limits", "cause"),
    [
        ("yes", Limits(output_bytes=1 << 20, disk_bytes=1 << 40), "output"),
        ("for i in {1..40}; do head -c 1M /dev/zero > /app/$i; done; sleep 900", Limits(disk_bytes=20 << 20), "disk"),
        ("for i in {1..40}; do head -c 1M /dev/zero > /tests/$i; done; sleep 9", Limits(disk_bytes=20 << 20), "disk"),
        ("mkdir /app/d; head -c 30M /dev/zero | split -b 1M - /app/d/; chmod 0 /app/d; sleep 1000",
         Limits(disk_bytes=20 << 20), "disk"),
        ("touch /app/{1..500}; sleep 1000", Limits(files=400), "files"),
        ("for i in 1 2 3 4; do (head -c 40M /dev/zero; sleep 1000) | tail -n 1 & done; wait",
         Limits(memory_bytes=120 << 20), "memory"),
    ],
    ids=["output", "disk", "disk-outside-app", "disk-hidden", "files", "memory"],
)  # fmt: skip
def test_a_sandbox_over_a_limit_is_stopped(run: Run, script: str, limits: Limits, cause: str) -> None:
    end, _ = run(script, limits=limits)
    assert end == Exit(128 + signal.SIGKILL, cause)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "limits", "end"),
    [
        ("head -c 2M /dev/zero", Limits(output_bytes=1 << 20), Exit(0, "output")),
        ("exec head -c 2M /dev/zero > /app/big", Limits(disk_bytes=1 << 20), Exit(128 + signal.SIGXFSZ, "disk")),
    ],
    ids=["output", "disk"],
)
def test_what_exceeds_a_limit_and_ends_before_the_watch_looks_is_found_all_the_same(
    run: Run, script: str, limits: Limits, end: Exit
) -> None:
    assert run(script, limits=limits)[0] == end


def test_one_process_cannot_take_more_memory_or_a_larger_file_than_allowed(run: Run) -> None:
    limits = Limits(memory_bytes=64 << 20, disk_bytes=1 << 20)
    _, log = run(
        "head -c 100M /dev/zero | tail -n 1; head -c 2M /dev/zero > /app/big; stat -c %s /app/big", limits=limits
    )
    assert "memory exhausted" in log
    assert log.splitlines()[-1] == str(1 << 20)


def test_eighty_sandboxes_stand_at_once(server: SandboxServer, workspace: Workspace, proxy_socket: Path) -> None:
    hear = "exec 5<>/dev/tcp/127.0.0.1/8080; echo $0 >&5; cat <&5; touch /app/$0; sleep 1000"
    spec = spec_of(workspace, "", proxy_socket=proxy_socket)
    names = [str(number) for number in range(80)]
    sandboxes = [server.start(replace(spec, command=("/bin/bash", "-c", hear, name))) for name in names]
    wait_for_files(workspace, *names, patience_s=240)
    assert len({sandbox.pid_namespace for sandbox in sandboxes}) == len(names)
    for sandbox in sandboxes:
        server.stop(sandbox)
    assert {sandbox.wait(60) for sandbox in sandboxes} == {Exit(128 + signal.SIGKILL, "killed")}
    assert sorted(read_log(workspace.agent_log).split()) == sorted([*names, *["heard"] * len(names)])


def test_a_task_gets_the_processors_that_it_asks_for(run: Run) -> None:
    assert run("nproc", limits=Limits(cpus=1))[1] == "1\n"
    assert run("nproc", limits=Limits(cpus=512))[1] == f"{len(os.sched_getaffinity(0))}\n"


def test_a_sandbox_that_cannot_be_made_says_why(server: SandboxServer, workspace: Workspace) -> None:
    sandbox = server.start(spec_of(workspace, "true", workdir="/nowhere"))
    with pytest.raises(SandboxError, match="nowhere") as caught:
        sandbox.wait_started(60)
    assert caught.value.code is Reason.SANDBOX_NEVER_HEALTHY


def test_sandboxes_end_with_the_server_and_a_new_one_takes_over(workspace: Workspace, proxy_socket: Path) -> None:
    server = SandboxServer()
    sandboxes = [
        running(server, spec_of(workspace, "sleep 1000")),
        running(server, spec_of(workspace, "sleep 1000", proxy_socket=proxy_socket)),
    ]
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGKILL)
    for sandbox in sandboxes:
        with pytest.raises(SandboxError) as caught:
            sandbox.wait(60)
        assert caught.value.code is Reason.SANDBOX_LOST
        wait_for(lambda namespace=sandbox.pid_namespace: in_namespace(namespace), "its processes end", until=not_)
    assert server.start(spec_of(workspace, "exit 3")).wait(60) == Exit(3)
    server.close()


def test_a_recorded_process_is_killed_only_if_it_is_the_same(server: SandboxServer, workspace: Workspace) -> None:
    sandbox = running(server, spec_of(workspace, "sleep 1000"))
    start = start_ticks(sandbox.pid)
    assert start is not None
    assert not kill_if_same(sandbox.pid, start + 1)
    assert kill_if_same(sandbox.pid, start)
    assert sandbox.wait(60) is not None
    assert not kill_if_same(sandbox.pid, start)


def test_files_from_inside_are_read_without_following_links(run: Run, workspace: Workspace) -> None:
    run("cd /logs/agent; ln -s /etc/passwd link; mkfifo pipe; mkdir folder; echo hi > file; printf 'a\\0b' > nul")
    logs = workspace.agent_logs
    assert [read_untrusted(logs / name, 10) for name in ("link", "pipe", "folder", "none", "file")] == [None] * 4 + [
        b"hi\n"
    ]
    assert read_log(logs / "nul") == "a\ufffdb"


def test_a_workspace_is_removed_whatever_was_done_to_it(run: Run, workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    run(f"mkdir -p a/b/c; touch a/b/c/d; ln -s {tmp_path} a/b/link; ln -s / /tmp/root; chmod 0 a/b/c a/b a /tests")
    workspace.remove()
    assert not workspace.path.exists()
    assert (tmp_path / "kept").exists()


def test_the_check_makes_a_real_sandbox(tmp_path: Path) -> None:
    assert problem(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert "No such file" in str(problem(tmp_path / "missing"))
