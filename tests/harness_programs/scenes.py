"""What happens in an execution: the scripts that every harness plays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from agents.proxy.scripted import Fault
from tests.harness_programs.screenplay import Call, Reply, after, failing, interrupted
from tests.harness_programs.vocabulary import Vocabulary

Parts = dict[str, list[Reply]]


@dataclass(frozen=True)
class Scene:
    """`parts` given the vocabulary, what cuts all connections, and how late a slow first byte is.

    `roles`: how many replies of each role the engine gives at least, each to one request that was not tried before.
    `seen`: results of tools that the harness must have shown to its model.
    """

    name: str
    parts: Callable[[Vocabulary, Callable[[], Awaitable[None]], float], Parts]
    roles: Mapping[str, int] = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    compacts: bool = False
    delegates: bool = False
    breaks: bool = False
    #: The policy's context is shorter than the harness was told.
    surprises: bool = False
    #: The harness may end before the script does.
    shortens: bool = False
    #: No reply is asked for twice.
    is_patient: bool = False


def write(words: Vocabulary, path: str, text: str) -> Call:
    if words.write is not None:
        return words.write(path, text)
    return words.shell(f"printf '%s' '{text}' > {path}")


def tools(words: Vocabulary, cut: Callable[[], Awaitable[None]], slow_s: float) -> Parts:
    read = words.read or (lambda path: words.shell(f"cat {path}"))
    edit = words.edit or (lambda path, old, new: words.shell(f"sed -i 's/{old}/{new}/' {path}"))
    return {
        "main": [
            Reply((words.shell("ls -la /app; echo 'ünïcödé \u2028 ☃ \"quoted\"'"),), "Looking around."),
            Reply((write(words, "/app/a.txt", "aple\n"),), "Writing."),
            Reply((read("/app/a.txt"), words.shell("wc -c /app/a.txt")), "Two at once."),
            Reply((edit("/app/a.txt", "aple", "apple"),)),
            Reply((words.shell("cat /app/a.txt; exit 3"),), "Checking."),
            Reply((words.shell("seq 1 300"),)),
            words.final(),
        ]
    }


def delegation(words: Vocabulary, cut: Callable[[], Awaitable[None]], slow_s: float) -> Parts:
    assert words.agent is not None
    return {
        "main": [
            Reply((words.shell("echo begin"),), "First a look."),
            Reply(
                (
                    words.agent("a", "[[SUB:a]] Count the files and say how many there are."),
                    words.agent("b", "[[SUB:b]] Say who you are."),
                ),
                "Two helpers.",
            ),
            *words.gather(),
            Reply((write(words, "/app/a.txt", "apple\n"),)),
            Reply((words.shell("cat /app/a.txt"),)),
            words.final(),
        ],
        "sub.a": [
            Reply((words.shell("ls /app | wc -l"),), "Counting."),
            Reply((words.shell("sleep 1; echo counted"),)),
            Reply(text="There are none."),
        ],
        "sub.b": [Reply((words.shell("id; sleep 1"),)), Reply(text="I am nobody.")],
    }


def compaction(words: Vocabulary, cut: Callable[[], Awaitable[None]], slow_s: float) -> Parts:
    long = [Reply((words.shell(f"seq {n}0000 {n}1500"),), f"Part {n}.") for n in range(1, 9)]
    return {"main": [*long, Reply((write(words, "/app/a.txt", "apple\n"),)), words.final()]}


def engine_error(words: Vocabulary, cut: Callable[[], Awaitable[None]], slow_s: float) -> Parts:
    return {
        "main": [
            Reply((words.shell("echo one"),), "Looking."),
            Reply((words.shell("echo two"),), "The engine refuses this one at first.", first=failing(Fault.REFUSE)),
            Reply((words.shell("echo three"),), "It fails at this one.", first=failing(Fault.FAIL)),
            Reply(
                (write(words, "/app/a.txt", "apple\n"),), "It breaks off in this one.", first=failing(Fault.BREAK, 5)
            ),
            words.final(),
        ]
    }


def broken_stream(words: Vocabulary, cut: Callable[[], Awaitable[None]], slow_s: float) -> Parts:
    """Connections end in the middle of a text, and after a whole tool call but before the end of the reply."""
    return {
        "main": [
            Reply((words.shell("echo one"),), "Looking."),
            Reply((words.shell("echo two"),), "A text of some length that breaks off.", first=interrupted(cut, 8)),
            Reply((write(words, "/app/a.txt", "apple\n"),)),
            Reply((words.shell("echo three"),), "Cut after the tool call.", first=interrupted(cut, 1 << 20)),
            Reply((words.shell("echo four"),)),
            words.final(),
        ]
    }


def malformed(words: Vocabulary, cut: Callable[[], Awaitable[None]], slow_s: float) -> Parts:
    """A tool call that cannot be read reaches the harness as text; most harnesses take it for the last word."""
    return {
        "main": [
            Reply((write(words, "/app/a.txt", "apple\n"),)),
            Reply(text='<tool_call>\n{"name": "shell", "arguments": {"command\n</tool_call>'),
            words.final(),
        ]
    }


def long_outputs(words: Vocabulary, cut: Callable[[], Awaitable[None]], slow_s: float) -> Parts:
    """More output of tools than any harness keeps without looking at it again."""
    seen = [Reply((words.shell(f"seq {n}00000 {n}04000"),), f"Part {n}.") for n in range(1, 17)]
    return {"main": [*seen, Reply((write(words, "/app/a.txt", "apple\n"),)), words.final()]}


def slow_first_byte(words: Vocabulary, cut: Callable[[], Awaitable[None]], slow_s: float) -> Parts:
    return {
        "main": [
            Reply((words.shell("echo one"),), "Looking."),
            Reply((write(words, "/app/a.txt", "apple\n"),), "At last.", first=after(slow_s)),
            words.final(),
        ]
    }


SCENES = {
    scene.name: scene
    for scene in (
        Scene("tools", tools, seen=('ünïcödé \u2028 ☃ "quoted"', "apple", "299\n300")),
        Scene("delegation", delegation, Counter({"sub-agent": 5}), ("begin", "counted"), delegates=True),
        Scene("compaction", compaction, Counter({"main-summary": 1}), ("10001\n10002",), compacts=True),
        Scene("prompt-too-long", compaction, Counter({"main-summary": 1}), compacts=True, surprises=True),
        Scene("long-outputs", long_outputs),
        Scene("malformed", malformed, shortens=True),
        Scene("engine-error", engine_error, seen=("one", "two", "three")),
        Scene("broken-stream", broken_stream, seen=("one",), breaks=True),
        Scene("slow-first-byte", slow_first_byte, seen=("one",), is_patient=True),
    )
}
