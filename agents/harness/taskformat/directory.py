"""One task as a directory: its settings, instruction, uploads and content digest (docs/tasks.md)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pathspec

from agents.harness.taskformat.config import TaskConfig
from agents.harness.taskformat.parse import parse_config
from agents.harness.taskformat.problems import BadTask
from agents.harness.taskformat.scripts import first_line

COMPOSE_NAMES = ("docker-compose.yaml", "docker-compose.yml")
_LONGEST_NAME = 120


@dataclass(frozen=True)
class ParsedTask:
    path: Path
    config: TaskConfig
    instruction: str
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.name

    def file(self, *parts: str) -> str:
        """How a file of this task is named in messages."""
        return "/".join((self.name, *parts))


def load_task(path: Path) -> ParsedTask:
    """Parse a task directory. Raises BadTask for a directory that is no valid task in any backend."""
    name = path.name
    _check_name(name)
    settings = path / "task.toml"
    if not settings.is_file():
        raise BadTask(f"{name}/task.toml", "is missing: this directory is no task")
    config, warnings = parse_config(_read(settings, f"{name}/task.toml"), f"{name}/task.toml")
    for file in walk(path):
        _check_file(path, file)
    environment = path / "environment"
    has_definition = any((environment / file).is_file() for file in ("Dockerfile", *COMPOSE_NAMES))
    if not config.environment.docker_image and not has_definition:
        raise BadTask(f"{name}/environment", "needs a Dockerfile or docker-compose.yaml, or docker_image in task.toml")
    if config.steps:
        for step in config.steps:
            if not (path / "steps" / step.name / "instruction.md").is_file():
                raise BadTask(f"{name}/steps/{step.name}/instruction.md", "is missing")
        return ParsedTask(path, config, "", tuple(warnings))
    if not (path / "instruction.md").is_file():
        raise BadTask(f"{name}/instruction.md", "is missing")
    _check_verifier(path, config)
    text = _read(path / "instruction.md", f"{name}/instruction.md")
    return ParsedTask(path, config, strip_canary(text), tuple(warnings))


def _check_name(name: str) -> None:
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        shown = name.encode(errors="backslashreplace").decode()[:_LONGEST_NAME]
        raise BadTask(shown, f"is no name of a task: at most {_LONGEST_NAME} printable characters")


def _check_file(path: Path, file: Path) -> None:
    shown = f"{path.name}/{file.relative_to(path)}"
    if not file.is_symlink():
        if not file.is_file():
            raise BadTask(shown, "is neither a file, a directory nor a link")
        return
    try:
        leads_to = file.resolve()
    except (OSError, RuntimeError) as error:
        raise BadTask(shown, "is a link that leads back to itself") from error
    if not leads_to.is_relative_to(path.resolve()):
        raise BadTask(shown, "is a link that leaves the task")


def _check_verifier(path: Path, config: TaskConfig) -> None:
    script, shown = path / "tests" / "test.sh", f"{path.name}/tests/test.sh"
    if not script.exists():
        bundled = config.verifier.environment is not None or (path / "tests" / "Dockerfile").is_file()
        if config.verifier.environment_mode == "separate" and bundled:
            return
        raise BadTask(shown, "is missing")
    first_line(script, shown)
    if script not in uploads(script.parent) or not script.resolve().is_relative_to(script.parent.resolve()):
        raise BadTask(shown, "does not reach the sandbox: .harborignore names it, or it is a link out of tests/")


def _read(path: Path, shown: str) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadTask(shown, f"is not UTF-8: {error}") from error
    if "\0" in text:
        raise BadTask(shown, "contains a NUL")
    return text


def strip_canary(text: str) -> str:
    """Without leading HTML or `#` comment lines that contain "canary", and the blank lines after them."""
    lines = text.splitlines(keepends=True)
    start = 0
    while start < len(lines):
        line = lines[start].strip()
        if not ((line.startswith(("<!--", "#"))) and "canary" in line.lower()):
            break
        start += 1
    if start:
        while start < len(lines) and not lines[start].strip():
            start += 1
    return "".join(lines[start:])


def walk(path: Path) -> Iterator[Path]:
    """Every file and link below, in an order that depends on names alone. Links are not followed."""
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(files + links):
            yield Path(folder, name)


def _raise(error: OSError) -> None:
    raise error


def uploads(folder: Path) -> list[Path]:
    """The files of `tests/` or `solution/` that go into the sandbox: all but what `.harborignore` names."""
    ignore = folder / ".harborignore"
    if not ignore.is_file():
        return list(walk(folder))
    lines = ignore.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    try:
        rules = pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise BadTask(f"{folder.parent.name}/{folder.name}/.harborignore", f"cannot be read: {error}") from error
    found = [file for file in walk(folder) if not rules.match_file(str(file.relative_to(folder)))]
    return [file for file in found if file != ignore]


def digest(path: Path) -> str:
    """SHA-256 over names, executable bits and contents: equal for equal tasks, wherever they lie. Raises BadTask."""
    total = hashlib.sha256()
    for file in sorted(walk(path), key=lambda item: item.relative_to(path).as_posix()):
        name = os.fsencode(file.relative_to(path))
        if file.is_symlink():
            content = os.fsencode(os.readlink(file))
        elif file.is_file():
            content = file.read_bytes()
        else:
            raise BadTask(f"{path.name}/{file.relative_to(path)}", "is neither a file, a directory nor a link")
        kind = b"link" if file.is_symlink() else b"script" if os.access(file, os.X_OK) else b"file"
        total.update(b"%s\0%s\0%d\0" % (name, kind, len(content)))
        total.update(content)
    return total.hexdigest()
