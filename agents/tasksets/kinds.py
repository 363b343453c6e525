"""The eight kinds of quickstart task: what is asked, what is checked, and how a perfect agent would do it.

Pure: a task is a value, drawn from a random source that the caller passes in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from agents.tasksets.vocabulary import FILE_STEMS, WORDS

NUMBER_SHARE = 0.3

LONG_PREFACE = (
    "This is a long job for a small memory. Keep this in mind: many people use these files, "
    "so each one must hold what is asked for and nothing else. Work through the steps in order. "
)
"""Opens every compaction task: long enough that the history outgrows the harness's budget after the second command
and not before, while no other kind reaches the budget in a perfect run (tests/policy checks it in tokens)."""


@dataclass(frozen=True)
class Check:
    """One share of the reward: `file` holds exactly `text` (None: it holds anything), written by whom is told."""

    file: str
    text: str | None
    by_helper: bool = False


@dataclass(frozen=True)
class Bash:
    """A call of the bash tool, and what it prints when all before it went well."""

    command: str
    prints: str = ""


@dataclass(frozen=True)
class Delegate:
    """A call of the delegate tool; `calls` is what a perfect helper does."""

    job: str
    calls: tuple[Bash, ...]


@dataclass(frozen=True)
class Summary:
    """A compaction: what a perfect agent answers when its history is full."""

    text: str


Step = Bash | Delegate | Summary


@dataclass(frozen=True)
class Task:
    """One task. `steps` is the demonstration; `files` stand in the working directory at the start."""

    kind: str
    text: str
    checks: tuple[Check, ...]
    steps: tuple[Step, ...]
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Value:
    text: str
    noun: str

    def __str__(self) -> str:
        return f"{self.noun} {self.text}"


def _values(rng: Random, count: int) -> list[_Value]:
    return [
        _Value(str(rng.randint(10, 99)), "number") if rng.random() < NUMBER_SHARE else _Value(rng.choice(WORDS), "word")
        for _ in range(count)
    ]


def _files(rng: Random, count: int) -> list[str]:
    return [f"{stem}.txt" for stem in rng.sample(FILE_STEMS, count)]


def _put(value: _Value, file: str) -> str:
    return f"Put the {value} into {file}."


def _write(rng: Random, value: _Value, file: str) -> str:
    return f"Create the file {file} with the {value}." if rng.random() < 0.5 else _put(value, file)


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _then(sentences: list[str]) -> str:
    return " Then ".join([sentences[0], *map(_lower, sentences[1:])])


def _echo(value: _Value, file: str) -> Bash:
    return Bash(f"echo {value.text} > {file}")


def _write_files(kind: str, count: int) -> Callable[[Random], Task]:
    def make(rng: Random) -> Task:
        files, values = _files(rng, count), _values(rng, count)
        sentences = [_write(rng, value, file) for value, file in zip(values, files, strict=True)]
        checks = [Check(file, value.text) for value, file in zip(values, files, strict=True)]
        if count == 1:
            checks.insert(0, Check(files[0], None))
        steps = tuple(_echo(value, file) for value, file in zip(values, files, strict=True))
        return Task(kind, _then(sentences), tuple(checks), steps)

    return make


def _compaction(rng: Random) -> Task:
    task = _write_files("compaction", 3)(rng)
    *_, last = task.text.split(" Then ")
    first, second, third = task.steps
    return Task(
        "compaction", LONG_PREFACE + task.text, task.checks, (first, second, Summary(f"Left: {_lower(last)}"), third)
    )


def _read(rng: Random) -> Task:
    (source, target), (value,) = _files(rng, 2), _values(rng, 1)
    return Task(
        "read",
        f"Read the file {source}. Then put its {value.noun} into {target}.",
        (Check(target, None), Check(target, value.text)),
        (Bash(f"cat {source}", prints=value.text), _echo(value, target)),
        {source: value.text + "\n"},
    )


def _copy(rng: Random) -> Task:
    (source, target, other), (value, second) = _files(rng, 3), _values(rng, 2)
    return Task(
        "copy",
        f"Copy the file {source} to {target}. Then {_lower(_write(rng, second, other))}",
        (Check(target, value.text), Check(other, second.text)),
        (Bash(f"cp {source} {target}"), _echo(second, other)),
        {source: value.text + "\n"},
    )


def _append(rng: Random) -> Task:
    (target, other), (old, new, second) = _files(rng, 2), _values(rng, 3)
    return Task(
        "append",
        f"Append the {new} to the file {target}. Then {_lower(_put(second, other))}",
        (Check(target, f"{old.text}\n{new.text}"), Check(other, second.text)),
        (Bash(f"echo {new.text} >> {target}"), _echo(second, other)),
        {target: old.text + "\n"},
    )


def _delegate(rng: Random) -> Task:
    (own, given), (value, second) = _files(rng, 2), _values(rng, 2)
    job = _write(rng, second, given)
    return Task(
        "delegate",
        f"{_write(rng, value, own)} Then delegate this job: {job}",
        (Check(own, value.text), Check(given, second.text, by_helper=True)),
        (_echo(value, own), Delegate(job, (_echo(second, given),))),
    )


_MAKERS: dict[str, Callable[[Random], Task]] = {
    "write1": _write_files("write1", 1),
    "write2": _write_files("write2", 2),
    "write3": _write_files("write3", 3),
    "read": _read,
    "copy": _copy,
    "append": _append,
    "delegate": _delegate,
    "compaction": _compaction,
}
KINDS: tuple[str, ...] = tuple(_MAKERS)


def make_task(kind: str, rng: Random) -> Task:
    """Draw one task of a kind (one of KINDS)."""
    return _MAKERS[kind](rng)
