"""The host directory of one attempt: the file tree that its sandboxes see, and what is put in and taken out.

The host never follows a path that processes inside could have changed: everything is put in before the first sandbox
starts, or into a directory that no sandbox has seen; single files are read without following links.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import posixpath
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import or_
from pathlib import Path
from typing import Any, BinaryIO

from agents.core.bounds import storable
from agents.harness.beneath import Beneath
from agents.harness.sandbox import skeleton
from agents.harness.sandbox.base import Bind, User
from agents.harness.sandbox.identity import hand_over, sandbox_uid
from agents.harness.sandbox.placement import spread_folders
from agents.harness.taskformat.context import BuildContext, Placed
from agents.harness.taskformat.directory import uploads
from agents.harness.taskformat.dockerfile import Image
from agents.harness.taskformat.local import FOLDERS

INSTRUCTION = "/run/gyre/instruction.md"
#: Python modules that a verifier's interpreter loads first.
_STARTUP = Path(__file__).resolve().parents[1] / "evaluator" / "startup"
#: Read from all folders above a file, by pytest, node, npm, cargo, go, git, and tools for style and types.
_CONFIGURES = frozenset({
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg",
    "setup.py", "node_modules", "package.json", ".npmrc", ".cargo", "Cargo.toml", "rust-toolchain.toml", "go.mod",
    "go.work", ".git", ".gitattributes", ".mocharc.js", ".mocharc.json", ".babelrc", "babel.config.js",
    "jest.config.js", "tsconfig.json", ".env",
})  # fmt: skip
_REPOSITORY = (".git", "HEAD")
_ASIDE = ".left-by-agent-"


@dataclass(frozen=True)
class Workspace:
    """`home` is GYRE_HOME; `path` belongs to one attempt of one execution, its parent holds nothing but such paths."""

    home: Path
    path: Path

    @property
    def area(self) -> Path:
        return self.path.parent

    @property
    def root(self) -> Path:
        return self.path / "root"

    @property
    def agent_log(self) -> Path:
        return self.path / "agent.log"

    @property
    def agent_logs(self) -> Path:
        return self.path / "logs" / "agent"

    @property
    def verifier_logs(self) -> Path:
        return self.path / "verify" / "logs"

    def create(self, image: Image, context: Path, user: User, instruction: str) -> None:
        """Make the file tree that stands in for the image, with the task's files in it. Replaces an older one."""
        self.begin()
        build_root(self.root, image, context, user, {INSTRUCTION: instruction})
        for name in ("logs", "tests", *(f"logs/{folder}" for folder in skeleton.LOG_FOLDERS)):
            self._folder(self.path / name)

    def begin(self) -> None:
        """An empty directory that sandboxes can reach. Replaces an older one."""
        self.remove()
        self.path.mkdir(parents=True)
        spread_folders(self.area)
        for place in (self.area, self.path):
            _let_through(place)

    def upload_solution(self, folder: Path) -> None:
        self._upload(folder, self.path / "solution")

    def upload_tests(self, folder: Path) -> None:
        """A fresh `/tests` and `/logs/verifier`: what the agent left in either is not seen again."""
        _clear(self.path / "verify")
        for place in (self.path / "verify", self.verifier_logs, self._verifier_home):
            self._folder(place)
        self._upload(folder, self.path / "verify" / "tests")

    def fresh_root(self, image: Image, context: Path, user: User) -> Path:
        """Another file tree, for a separate verifier."""
        place = self.path / "verify" / "root"
        build_root(place, image, context, user)
        return place

    def agent_binds(self, user: User) -> tuple[Bind, ...]:
        """What the agent's sandbox shows beside the root."""
        solution = self.path / "solution"
        own = (Bind(solution, "/solution", writable=True),) if solution.is_dir() else ()
        return (*self._binds(user, self.path / "tests", self.path / "logs" / "verifier"), *own)

    def verifier_binds(self, user: User) -> tuple[Bind, ...]:
        """What a shared verifier's sandbox shows beside the agent's root."""
        return (*self._binds(user, self.path / "verify" / "tests", self.verifier_logs), *self._startup())

    def hook_binds(self, user: User) -> tuple[Bind, ...]:
        """What the commands of a task's verifier that prepare its work see beside the agent's root."""
        _clear(self._verifier_home)
        self._folder(self._verifier_home)
        return (*self.agent_binds(user), *self._startup())

    @property
    def _verifier_home(self) -> Path:
        return self.path / "verify" / "home"

    def _startup(self) -> tuple[Bind, ...]:
        home = Bind(self._verifier_home, skeleton.VERIFIER_HOME, writable=True)
        return home, Bind(_STARTUP, skeleton.VERIFIER_STARTUP)

    def may_hold_repository(self, workdir: str) -> bool:
        """Whether git may find a repository in a directory inside, above it, or in a folder of it."""
        with Beneath(self.root) as tree:
            above = [workdir]
            while above[-1] != "/":
                above.append(posixpath.dirname(above[-1]))
            if any(tree.real(posixpath.join(folder, name)) for folder in above for name in _REPOSITORY):
                return True
            try:
                listed = tree.open(workdir, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                return True
            try:
                folders = [entry.name for entry in os.scandir(listed) if entry.is_dir() or entry.is_symlink()]
            finally:
                os.close(listed)
            return any(tree.real(f"{workdir}/{folder}/{name}") for folder in folders for name in _REPOSITORY)

    def set_aside_configuration(self) -> None:
        """Rename what an agent left at `/` that would configure programs run in `/tests`. Raises OSError."""
        self.root.chmod(0o755)
        with Beneath(self.root) as tree, tree.folder("/") as top:
            there = set(os.listdir(self.root))
            for name in there & _CONFIGURES:
                number = next(number for number in itertools.count() if f"{_ASIDE}{number}-{name}" not in there)
                os.rename(name, f"{_ASIDE}{number}-{name}", src_dir_fd=top, dst_dir_fd=top)

    def separate_binds(self, user: User, with_tests: bool) -> tuple[Bind, ...]:
        """What a separate verifier's sandbox shows beside a fresh root."""
        tests = (Bind(self.path / "verify" / "tests", "/tests", writable=True),) if with_tests else ()
        verifier = Bind(self.verifier_logs, "/logs/verifier", writable=True)
        return (*self.unpacking_binds(user), verifier, *self._startup(), *tests)

    def unpacking_binds(self, user: User) -> tuple[Bind, ...]:
        """What artifacts are unpacked into beside a fresh root: neither tests nor rewards are among it."""
        verify = self.path / "verify"
        for name in ("agent", "artifacts"):
            self._folder(verify / name)
        return self._frame(user, verify / "agent", verify / "artifacts")

    def transfer_folder(self) -> Path:
        place = self.path / "transfer"
        _clear(place)
        self._folder(place)
        return place

    def _binds(self, user: User, tests: Path, verifier_logs: Path) -> tuple[Bind, ...]:
        frame = self._frame(user, self.agent_logs, self.path / "logs" / "artifacts")
        verifier = Bind(verifier_logs, "/logs/verifier", writable=True)
        return (*frame, verifier, Bind(tests, "/tests", writable=True))

    def _frame(self, user: User, agent: Path, artifacts: Path) -> tuple[Bind, ...]:
        return (
            Bind(skeleton.etc(self.home, user), "/etc"),
            Bind(skeleton.logs(self.home), "/logs"),
            Bind(agent, "/logs/agent", writable=True),
            Bind(artifacts, "/logs/artifacts", writable=True),
        )

    def remove(self) -> None:
        """Delete everything, also what the agent made unreadable. Only when no process of it runs."""
        _clear(self.path)

    def _folder(self, place: Path) -> None:
        place.mkdir(parents=True, mode=0o755, exist_ok=True)
        hand_over(place, sandbox_uid())

    def _upload(self, folder: Path, dest: Path) -> None:
        self._folder(dest)
        with Beneath(dest) as tree:
            for file in uploads(folder) if folder.is_dir() else ():
                runs = 0o111 if file.suffix == ".sh" else 0
                _copy_file(tree, file, f"/{file.relative_to(folder)}", partial(or_, runs))
        hand_over_tree(dest)


def _clear(place: Path) -> None:
    if place.exists():
        shutil.rmtree(place, onerror=_open_and_retry)


def _let_through(place: Path) -> None:
    """Where sandboxes are another user: it may pass, and nobody else may."""
    uid = sandbox_uid()
    if uid is not None:
        os.chown(place, 0, uid)
    place.chmod(0o700 if uid is None else 0o710)


def build_root(root: Path, image: Image, context: Path, user: User, texts: Mapping[str, str] | None = None) -> None:
    """What the image has beside the host's system, and `texts` by path. No path of a task leads out of `root`."""
    root.mkdir(parents=True, exist_ok=True)
    with Beneath(root) as tree:
        for name in (*FOLDERS, user.home, image.workdir):
            tree.make_dirs(name)
        for name in ("tmp", "var/tmp"):
            (root / name).chmod(0o1777)
        files = BuildContext(context, context.name)
        for copy in image.copies:
            for placed in files.placed(copy, tree.is_dir(copy.dest)):
                _place(tree, placed, copy.mode)
        for path, text in (texts or {}).items():
            tree.put_file(path, io.BytesIO(text.encode()), 0o644)
    hand_over_tree(root)


def _place(tree: Beneath, placed: Placed, mode: int | None) -> None:
    if placed.path is None:
        tree.put_file(placed.dest, io.BytesIO(placed.text.encode()), 0o644 if mode is None else mode)
    elif placed.path.is_dir() and not placed.path.is_symlink():
        tree.make_dirs(placed.dest)
    else:
        _copy_file(tree, placed.path, placed.dest, lambda found: found if mode is None else mode)


def _copy_file(tree: Beneath, source: Path, dest: str, adjust: Callable[[int], int]) -> None:
    if source.is_symlink():
        tree.put_link(dest, os.readlink(source))
        return
    with _plain_file(source) as file:
        if file is None:
            raise OSError(errno.EINVAL, "cannot be read as a plain file", str(source))
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777
        tree.put_file(dest, file, adjust(mode | 0o644))


def hand_over_tree(top: Path) -> None:
    uid = sandbox_uid()
    if uid is None:
        return
    hand_over(top, uid)
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            hand_over(Path(folder, name), uid)


def _open_and_retry(function: Callable[[str], Any], path: str, _info: object) -> None:
    """For rmtree: a directory that its owner may not change is made writable first."""
    if os.path.islink(path) or not os.path.exists(path):
        return
    os.chmod(os.path.dirname(path), 0o700)
    if os.path.isdir(path):
        os.chmod(path, 0o700)
        shutil.rmtree(path, onerror=_open_and_retry if function is not os.rmdir else None)
    else:
        os.unlink(path)


def read_untrusted(path: Path, limit_bytes: int) -> bytes | None:
    """A plain file's first `limit_bytes`; None when it is missing, a link, or not a plain file."""
    with _plain_file(path) as file:
        return file.read(limit_bytes) if file else None


def read_log(path: Path, limit_bytes: int = 64 << 10) -> str:
    """A log as text that a database takes: the beginning and the end of a long one, no NUL, valid Unicode."""
    with _plain_file(path) as file:
        if file is None:
            return ""
        size = os.fstat(file.fileno()).st_size
        data = file.read(limit_bytes if size <= limit_bytes else limit_bytes // 2)
        if size > limit_bytes:
            file.seek(-limit_bytes // 2, os.SEEK_END)
            data += f"\n[{size - limit_bytes} bytes left out]\n".encode() + file.read(limit_bytes // 2)
    return storable(data.decode(errors="replace"))


@contextmanager
def _plain_file(path: Path) -> Iterator[BinaryIO | None]:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        yield None
        return
    with os.fdopen(number, "rb") as file:
        yield file
