"""What starts a sandbox and what it reports. Backends (today: bubblewrap) take a `SandboxSpec` and give an `Exit`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from agents.core.outcome import Reason

#: Environment variables by which what a sandbox server started is found when it is dead: its own number, and the mark
#: of the supervisor above it. They open nothing, and what runs in sandboxes is not started with them.
SERVER_MARK = "GYRE_SANDBOX_SERVER"
SUPERVISOR_MARK = "GYRE_SUPERVISOR_TOKEN"
MARKS = (SERVER_MARK, SUPERVISOR_MARK)

#: Port on the sandbox's own loopback behind which the model proxy answers.
PROXY_PORT = 8080


class SandboxError(RuntimeError):
    """A sandbox that could not be made or was lost; `code` is why the execution is unresolved."""

    def __init__(self, code: Reason, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True)
class User:
    """Who processes are inside. On the host every name is the same unprivileged identity."""

    name: str = "agent"
    uid: int = 1000

    @property
    def home(self) -> str:
        return "/root" if self.uid == 0 else f"/home/{self.name}"


@dataclass(frozen=True)
class Limits:
    """Bounds on one sandbox. Disk, files, output and memory are sampled about once a second, the others are exact."""

    processes: int = 128
    memory_bytes: int = 2 << 30
    disk_bytes: int = 1 << 30
    files: int = 100_000
    output_bytes: int = 8 << 20
    open_files: int = 1024
    cpus: int | None = None


@dataclass(frozen=True)
class Bind:
    """A host path shown at `dest`."""

    source: Path
    dest: str
    writable: bool = False


@dataclass(frozen=True)
class SandboxSpec:
    """One sandbox and the one process tree that runs in it.

    `root` is the writable file tree that becomes `/`; it outlives the sandbox. It and every writable bind lie below
    `area`, a directory that many sandboxes share. The process tree is started either as
    `command` or, with `program`, as a call of a function that the sandbox server imported beforehand.
    Standard output and error go to `log`, a host file outside the sandbox's reach.
    """

    area: Path
    root: Path
    log: Path
    command: tuple[str, ...] = ()
    program: str = ""
    binds: tuple[Bind, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/app"
    user: User = User()
    limits: Limits = Limits()
    proxy_socket: Path | None = None

    def message(self) -> dict[str, Any]:
        """The JSON form that travels to the sandbox server."""
        return {
            "area": str(self.area),
            "root": str(self.root),
            "log": str(self.log),
            "command": list(self.command),
            "program": self.program,
            "binds": [[str(bind.source), bind.dest, bind.writable] for bind in self.binds],
            "env": self.env,
            "workdir": self.workdir,
            "uid": self.user.uid,
            "limits": asdict(self.limits),
            "proxy_socket": str(self.proxy_socket) if self.proxy_socket else "",
        }


#: exited: by itself. The others: ended from outside, with everything that ran inside.
ExitCause = Literal["exited", "killed", "disk", "files", "output", "memory"]


@dataclass(frozen=True)
class Exit:
    """How the process tree ended. `code` is 128 + n for signal n. Nothing of it runs any more."""

    code: int
    cause: ExitCause = "exited"
