"""The part of a Dockerfile that the local backend can honour: FROM, WORKDIR, ENV, ARG, COPY, USER (docs/tasks.md).

Lines, quotes, escapes, JSON forms, here-documents and variables are read as BuildKit reads them. The host system stands
in for the image. What would change that system (RUN, ADD from elsewhere) is refused by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from e2b_dockerfile_utils import (
    DockerfileHeredoc,
    DockerfileInstruction,
    DockerfileSyntaxError,
    ShellLex,
    chomp_heredoc_content,
    parse_dockerfile_ast,
    parse_heredoc,
)

from agents.harness.taskformat import paths
from agents.harness.taskformat.problems import BadTask, place

#: What Docker sets where an image does not.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_WITHOUT_EFFECT = {"LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "CMD", "ENTRYPOINT", "SHELL", "VOLUME"}
_BLANKS = re.compile(r"[\t\v\f\r ]+")
_LONGEST_FILE = 1 << 20
#: Of one instruction with its variables in place.
_LONGEST_INSTRUCTION = 1 << 18


@dataclass(frozen=True)
class Copy:
    """Files of the build context that go into the sandbox. `into_dir`: dest is a directory even if it is new.

    `inline`: name and content of here-documents among the sources.
    """

    sources: tuple[str, ...]
    dest: str
    into_dir: bool
    mode: int | None
    line: int
    inline: tuple[tuple[str, str], ...] = ()


@dataclass
class Image:
    workdir: str = "/app"
    env: dict[str, str] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    user: str | None = None
    warnings: list[str] = field(default_factory=list)


def load_dockerfile(path: Path, file: str) -> Image:
    """`file`: how it is named in messages. Raises BadTask."""
    try:
        with path.open("rb") as opened:
            content = opened.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise BadTask(file, f"cannot be read: {error.strerror}") from error
    if len(content) > _LONGEST_FILE:
        raise BadTask(file, f"is longer than {_LONGEST_FILE} bytes")
    # Comments may be in any encoding; an instruction that is no UTF-8 is refused by its line.
    return read_dockerfile(content.decode(errors="surrogateescape"), file)


def read_dockerfile(text: str, file: str) -> Image:
    """Raises BadTask for what Docker does not take either, or the local backend cannot honour."""
    try:
        parsed = parse_dockerfile_ast(text)
    except DockerfileSyntaxError as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise BadTask(file, reason, error.line) from error
    except (ValueError, RecursionError) as error:
        raise BadTask(file, f"cannot be read: {error}") from error
    reading = _Reading(file, parsed.escape_token)
    for instruction in parsed.instructions:
        reading.take(instruction)
    if not reading.has_base:
        raise BadTask(file, "has no FROM")
    return reading.image


class _Reading:
    def __init__(self, file: str, escape: str) -> None:
        self.image = Image()
        self.has_base = False
        self._file, self._escape = file, escape
        self._before_base: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._line = 0

    def take(self, instruction: DockerfileInstruction) -> None:
        self._line = instruction.start_line
        name, image = instruction.name, self.image
        self._check(instruction)
        match name:
            case "FROM":
                self._base(instruction)
            case "ARG":
                self._argument(instruction)
            case _ if not self.has_base:
                raise self._bad(f"{name} stands before FROM")
            case "WORKDIR":
                image.workdir = paths.inside(self._path(self._whole(instruction)), image.workdir)
            case "ENV":
                image.env |= self._assignments(instruction)
            case "COPY":
                image.copies.append(self._copy(instruction))
            case "USER":
                image.user = self._user(self._whole(instruction))
            case _ if name in _WITHOUT_EFFECT:
                image.warnings.append(f"{place(self._file, self._line)}: {name} has no effect in the local sandbox")
            case _:
                raise self._bad(f"{name} needs a container backend; the local sandbox builds no images")

    def _bad(self, reason: str) -> BadTask:
        return BadTask(self._file, reason, self._line)

    def _check(self, instruction: DockerfileInstruction) -> None:
        documents = "".join(document.content for document in instruction.heredocs)
        text = instruction.original + documents
        if "\0" in text:
            raise self._bad(f"{instruction.name} contains a NUL")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise self._bad(f"{instruction.name} is not UTF-8")
        longest = max(map(len, self._variables().values()))
        if len(text) + text.count("$") * longest > _LONGEST_INSTRUCTION:
            raise self._bad(f"{instruction.name} may grow longer than {_LONGEST_INSTRUCTION} characters")

    def _variables(self) -> dict[str, str]:
        if not self.has_base:
            return {"": "", **self._before_base}
        return self._arguments | {"PATH": PATH} | self.image.env

    def _expand(self, text: str, quotes: bool = True) -> str:
        names = self._variables()
        lexer = ShellLex(self._escape, env=names, skip_unset_env=False, skip_process_quotes=not quotes)
        try:
            return lexer.process_word(text)
        except ValueError as error:
            raise self._bad(str(error)) from error

    def _whole(self, instruction: DockerfileInstruction) -> str:
        """The one argument of an instruction that takes all that follows as one."""
        if not instruction.args:
            raise self._bad(f"{instruction.name} needs an argument")
        return self._expand(instruction.args[0])

    def _path(self, path: str) -> str:
        if reason := paths.why_no_path(path):
            raise self._bad(f"the path {path[:80]!r} {reason}")
        return path

    def _base(self, instruction: DockerfileInstruction) -> None:
        words = instruction.args
        if self.has_base or len(words) > 1:
            raise self._bad("a build of several stages needs a container backend")
        if not words:
            raise self._bad("FROM needs an image")
        for flag in instruction.flags:
            if not flag.startswith("--platform="):
                raise self._bad(f"FROM {flag} is unknown")
        shown = self._expand(words[0])
        self.image.warnings.append(
            f"{place(self._file, self._line)}: FROM {shown}: the host system stands in for the image"
        )
        self.has_base = True

    def _argument(self, instruction: DockerfileInstruction) -> None:
        if not instruction.args:
            raise self._bad("ARG needs a name")
        found = {}
        for word in instruction.args:
            name, given, default = word.partition("=")
            name = self._expand(name)
            if not given and not (self.has_base and name in self._before_base):
                raise self._bad(f"ARG {name} has no default and nothing gives it a value")
            found[name] = self._expand(default) if given else self._before_base[name]
            self._variable(name, found[name])
        (self._arguments if self.has_base else self._before_base).update(found)

    def _assignments(self, instruction: DockerfileInstruction) -> dict[str, str]:
        """All values of one ENV are made of the variables before it."""
        words = instruction.args
        if not words:
            raise self._bad("ENV needs a name and a value")
        found = {}
        for name, value in zip(words[::3], words[1::3], strict=True):
            name, value = self._expand(name), self._expand(value)
            self._variable(name, value)
            found[name] = value
        return found

    def _variable(self, name: str, value: str) -> None:
        if reason := paths.why_no_variable(name, value):
            raise self._bad(reason)

    def _user(self, text: str) -> str:
        user = text.partition(":")[0]
        if reason := paths.why_no_user(user):
            raise self._bad(f"USER {reason}")
        return user

    def _copy(self, instruction: DockerfileInstruction) -> Copy:
        mode = self._copy_mode(instruction.flags)
        words = instruction.args
        if len(words) < 2:
            raise self._bad("COPY must name files of the build context and a destination")
        # Docker knows neither quotes nor escapes here, and no other blanks; the parser is kinder.
        as_docker = _BLANKS.split(instruction.original.strip())[1 + len(instruction.flags) :]
        if not instruction.json and words != as_docker:
            raise self._bad('COPY is split at blanks: write names that have some as COPY ["a b", "to"]')
        documents = tuple((self._document_name(item), self._document(item)) for item in instruction.heredocs)
        plain = [word for word in words if instruction.json or parse_heredoc(word) is None]
        if instruction.heredocs and parse_heredoc(words[-1]) is not None:
            raise self._bad("COPY must end with a destination")
        *sources, dest = (self._path(self._expand(word)) for word in plain)
        if any(".." in source.split("/") for source in sources):
            raise self._bad("COPY must stay inside the task and must not use '..'")
        is_folder = dest.endswith("/") or dest.split("/")[-1] in (".", "..")
        if len(sources) + len(documents) > 1 and not is_folder:
            raise self._bad(f"COPY of several files needs a destination that ends in '/', not {dest!r}")
        where = paths.inside(dest, self.image.workdir)
        if dest.endswith("/") and where != "/":
            where += "/"
        return Copy(tuple(sources), where, is_folder, mode, self._line, documents)

    def _copy_mode(self, flags: list[str]) -> int | None:
        mode: int | None = None
        for flag in flags:
            name, _, value = flag.removeprefix("--").partition("=")
            value = self._expand(value)
            if name == "chmod":
                if not re.fullmatch(r"0?[0-7]{3}", value):
                    raise self._bad(f"COPY --chmod must be three octal digits here, not {value[:40]!r}")
                mode = int(value, 8)
            elif name not in ("chown", "link"):
                raise self._bad(f"COPY --{name} needs a container backend")
        return mode

    def _document_name(self, document: DockerfileHeredoc) -> str:
        name = document.name
        if "/" in name or name in ("", ".", ".."):
            raise self._bad(f"COPY <<{name}: is no file name")
        return self._path(name)

    def _document(self, document: DockerfileHeredoc) -> str:
        content = chomp_heredoc_content(document.content) if document.chomp else document.content
        return self._expand(content, quotes=False) if document.expand else content
