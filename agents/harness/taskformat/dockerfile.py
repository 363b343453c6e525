"""The part of a Dockerfile that the local backend can honour: FROM, WORKDIR, ENV, ARG, COPY, USER (tasks.md §6).

The host system stands in for the image. What would change that system (RUN, ADD from elsewhere) is refused by line.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from agents.harness.taskformat.problems import BadTask, place

_CONTINUED = re.compile(r"\\\s*$")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_WITHOUT_EFFECT = {"LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "CMD", "ENTRYPOINT", "SHELL", "VOLUME"}


@dataclass(frozen=True)
class Copy:
    """Files of the build context that go into the sandbox. `into_dir`: dest is a directory even if it is new."""

    sources: tuple[str, ...]
    dest: str
    into_dir: bool
    mode: int | None
    line: int


@dataclass
class Image:
    workdir: str = "/app"
    env: dict[str, str] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    user: str | None = None
    warnings: list[str] = field(default_factory=list)


def read_dockerfile(text: str, file: str) -> Image:
    """Raises BadTask for an instruction that the local backend cannot honour."""
    image, arguments = Image(), dict[str, str]()
    for line, keyword, rest in _instructions(text, file):
        values = arguments | image.env
        match keyword:
            case "FROM":
                if image.copies or image.env or " as " in rest.lower():
                    raise BadTask(file, "a build of several stages needs a container backend", line)
                image.warnings.append(f"{place(file, line)}: FROM {rest}: the host system stands in for the image")
            case "WORKDIR":
                path = _expand(rest, values)
                image.workdir = path if path.startswith("/") else f"{image.workdir.rstrip('/')}/{path}"
            case "ENV":
                image.env |= _assignments(rest, values, file, line)
            case "ARG":
                name, given, default = rest.partition("=")
                if not given:
                    raise BadTask(file, f"ARG {name} has no default and nothing gives it a value", line)
                arguments[name] = _expand(shlex.split(default)[0] if default else "", values)
            case "COPY":
                image.copies.append(_copy(rest, values, image.workdir, file, line))
            case "USER":
                image.user = _expand(rest, values).partition(":")[0]
            case _ if keyword in _WITHOUT_EFFECT:
                image.warnings.append(f"{place(file, line)}: {keyword} has no effect in the local sandbox")
            case _:
                raise BadTask(file, f"{keyword} needs a container backend; the local sandbox builds no images", line)
    return image


def _instructions(text: str, file: str) -> Iterator[tuple[int, str, str]]:
    pending, start = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        start = start or number
        if _CONTINUED.search(line):
            pending += _CONTINUED.sub(" ", line)
            continue
        keyword, _, rest = (pending + line).strip().partition(" ")
        yield start, keyword.upper(), rest.strip()
        pending, start = "", 0
    if pending:
        raise BadTask(file, "the last line ends in a backslash", start)


def _expand(text: str, values: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2], ""), text)


def _assignments(rest: str, values: dict[str, str], file: str, line: int) -> dict[str, str]:
    words = shlex.split(rest)
    if "=" not in words[0]:
        name, _, value = rest.partition(" ")
        return {name: _expand(value.strip(), values)}
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise BadTask(file, f"ENV {word!r} is not NAME=value", line)
        found[name] = _expand(value, values)
    return found


def _copy(rest: str, values: dict[str, str], workdir: str, file: str, line: int) -> Copy:
    mode: int | None = None
    words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    while words and words[0].startswith("--"):
        name, _, value = words.pop(0)[2:].partition("=")
        if name == "chmod" and re.fullmatch(r"0?[0-7]{3}", value):
            mode = int(value, 8)
        elif name != "chown":
            raise BadTask(file, f"COPY --{name} needs a container backend", line)
    if len(words) < 2 or any(word.startswith("<<") for word in words):
        raise BadTask(file, "COPY must name files of the build context and a destination", line)
    *sources, dest = (_expand(word, values) for word in words)
    if any(".." in source.split("/") for source in sources) or ".." in dest.split("/"):
        raise BadTask(file, "COPY must stay inside the task and must not use '..'", line)
    absolute = dest if dest.startswith("/") else f"{workdir.rstrip('/')}/{dest}"
    into_dir = dest.endswith("/") or dest in (".", "./") or len(sources) > 1
    return Copy(tuple(sources), absolute, into_dir, mode, line)
