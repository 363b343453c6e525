"""Whether the kernel can start a script in the sandbox: its first line, and the interpreter that it names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from agents.harness.taskformat import paths
from agents.harness.taskformat.dockerfile import PATH
from agents.harness.taskformat.problems import BadTask

#: Bytes at the beginning of a script that the kernel reads.
_FIRST_BYTES = 256
_ENV = ("/usr/bin/env", "/bin/env")


def first_line(path: Path, shown: str) -> list[str]:
    """The interpreter that a script names, and its argument if it has one. Raises BadTask."""
    if path.is_dir():
        raise BadTask(shown, "is a directory, not a script")
    try:
        with path.open("rb") as file:
            start = file.read(_FIRST_BYTES)
    except OSError as error:
        raise BadTask(shown, f"cannot be read: {error.strerror}") from error
    if start.startswith(b"\xef\xbb\xbf"):
        raise BadTask(shown, "starts with a byte-order mark: #! must be the first two bytes", 1)
    if not start.startswith(b"#!"):
        raise BadTask(shown, "needs a shebang", 1)
    line, ended, _ = start[2:].partition(b"\n")
    if not ended and len(start) == _FIRST_BYTES:
        raise BadTask(shown, f"its first line is longer than {_FIRST_BYTES - 1} bytes: the kernel reads no further", 1)
    if line.endswith(b"\r"):
        raise BadTask(shown, "has Windows line ends (CRLF), so its interpreter is not found: save it with LF", 1)
    words = line.decode(errors="replace").strip(" \t").split(maxsplit=1)
    if not words:
        raise BadTask(shown, "names no interpreter after #!", 1)
    return words


def check_interpreter(words: list[str], shown: str, search: str, is_copied: Callable[[str], bool]) -> None:
    """Raises BadTask. `words`: of `first_line`. `search`: the PATH that the script is started with.

    `is_copied`: whether the image brings a file.
    """
    interpreter = words[0]
    if not interpreter.startswith("/"):
        raise BadTask(shown, f"its interpreter {interpreter[:80]!r} is no absolute path", 1)
    if not _can_run(interpreter, is_copied):
        raise BadTask(shown, f"its interpreter {interpreter[:80]!r} is not in the sandbox", 1)
    if interpreter in _ENV:
        _check_env(words[1] if len(words) > 1 else "", shown, search, is_copied)


def _can_run(path: str, is_copied: Callable[[str], bool]) -> bool:
    real = paths.inside(path)
    if paths.is_below(real, paths.PROGRAMS):
        leads_to = os.path.realpath(real)
        return paths.is_below(leads_to, paths.PROGRAMS) and os.path.isfile(leads_to) and os.access(leads_to, os.X_OK)
    return is_copied(real)


def _check_env(argument: str, shown: str, search: str, is_copied: Callable[[str], bool]) -> None:
    """The kernel passes all that follows the interpreter as one argument; `env -S` splits it."""
    splits = argument.startswith("-S") or argument.startswith("--split-string")
    if not splits and " " in argument.strip():
        raise BadTask(shown, f"env looks for a program called {argument!r:.80}: with arguments it needs env -S", 1)
    words = argument.removeprefix("-S").split() if splits else argument.split()
    if {"-u", "-C", "--unset", "--chdir"} & set(words):  # their values are not to be taken for the program
        return
    program = next((word for word in words if not word.startswith("-") and "=" not in word), "")
    if not program:
        raise BadTask(shown, "env is given no program", 1)
    if "/" in program:
        found = _can_run(program, is_copied)
    else:
        folders = [folder for folder in f"{search}:{PATH}".split(":") if folder.startswith("/")]
        found = any(_can_run(f"{folder}/{program}", is_copied) for folder in folders)
    if not found:
        raise BadTask(shown, f"its interpreter {program[:80]!r} is not in the sandbox", 1)
