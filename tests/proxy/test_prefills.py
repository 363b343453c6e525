"""A reply that its client began keeps its ids, however the harness writes both down afterwards."""

from typing import Any

import httpx
import pytest

from agents.models import Call
from agents.web.divergence import divergences
from tests.proxy.backstage import Backstage, full_input, policy, sampled, tool_text

GO = [{"role": "user", "content": "go"}]
ON = {"role": "user", "content": "on"}
TOOLS = [{"name": "bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}]


def _turn(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


class Talk:
    """One execution's calls in the Messages dialect."""

    def __init__(self, stage: Backstage) -> None:
        self.stage = stage
        run = stage.run()
        self.engine = stage.engine(run, "done")
        self.execution, self.base = stage.execution(run)

    def ask(self, reply: Any, *messages: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
        self.engine.say(reply)
        body = {"model": "m", "max_tokens": 60, "messages": list(messages), "tools": TOOLS} | options
        answer = httpx.post(f"{self.base}/v1/messages", json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["content"]

    @property
    def input(self) -> list[int]:
        """Ids that the engine read last."""
        return self.engine.requests[-1]["input_ids"]

    def restart(self) -> None:
        self.stage.stop_proxy()
        self.stage.start_proxy()
        self.base = f"{self.stage.url}/x/{self.base.rpartition('/')[2]}"

    @property
    def calls(self) -> list[Call]:
        return self.stage.calls(self.execution)


@pytest.fixture
def talk(stage: Backstage) -> Talk:
    return Talk(stage)


def _extends(calls: list[Call], talk: Talk) -> bool:
    """Whether the last call simply goes on from the one before."""
    last = calls[-1]
    return (last.parent_number, last.branch_reason, last.false_fork) == (calls[-2].number, "", False)


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize(
    ("begun", "said", "kept"),
    [
        ("{", '"a": 1}', '{"a": 1}'),
        ("I will", " read the file", "I will read the file"),
        ("I will", " read the file", "I will\nread the file\n"),
        ("I will ", "read", "I will read"),
    ],
)
def test_a_glued_turn_is_the_prefill_and_its_reply(
    talk: Talk, begun: str, said: str, kept: str, restarted: bool
) -> None:
    [block] = talk.ask(said, *GO, _turn(begun))
    assert block["text"] == said
    first = talk.input + sampled(said)
    if restarted:
        talk.restart()
    talk.ask("done", *GO, _turn(kept), ON)
    second = talk.input + sampled("done")
    assert second[: len(first)] == first
    assert _extends(talk.calls, talk)
    assert full_input(talk.calls[1]) == talk.input
    talk.ask("done", *GO, _turn(kept), ON, _turn("done"), ON)
    assert talk.input[: len(second)] == second
    assert _extends(talk.calls, talk)


def test_a_prefill_and_its_reply_may_stay_turns_of_their_own(talk: Talk) -> None:
    talk.ask(" read", *GO, _turn("I will"))
    first = talk.input + sampled(" read")
    talk.ask("done", *GO, _turn("I will"), _turn(" read"), ON)
    assert talk.input[: len(first)] == first
    assert _extends(talk.calls, talk)


def test_a_reply_with_a_tool_call_is_known_behind_what_began_it(talk: Talk) -> None:
    said = " read\n" + tool_text("bash", command="ls")
    text, use = talk.ask(said, *GO, _turn("I will"))
    first = talk.input + sampled(said)
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use["id"], "content": "a"}]}
    glued = [{"type": "text", "text": "I will" + text["text"]}, use]
    talk.ask("done", *GO, _turn(glued), result)
    assert talk.input[: len(first)] == first
    assert _extends(talk.calls, talk)


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "ended"])
def test_a_reply_that_is_sent_as_a_prefill_goes_on_from_its_own_ids(talk: Talk, is_cut: bool, restarted: bool) -> None:
    said = sampled("I will read", close=False)
    talk.ask("I will read", *GO, max_tokens=len(said) if is_cut else 60)
    first = talk.input + said
    if restarted:
        talk.restart()
    talk.ask(" the file", *GO, _turn("I will read"))
    assert talk.input == first
    second = talk.input + sampled(" the file")
    if restarted:
        talk.restart()
    talk.ask("done", *GO, _turn("I will read the file"), ON)
    assert talk.input[: len(second)] == second
    assert _extends(talk.calls, talk)


def test_a_prefill_that_stands_alone_is_context(talk: Talk) -> None:
    talk.ask(" read", *GO, _turn("I will"))
    talk.ask("done", *GO, _turn("I will"), ON)
    assert "assistant\nI will<|im_end|>\n<|im_start|>user\non" in policy().tokenizer.decode(talk.input)
    assert not talk.calls[1].false_fork


def test_the_beginning_of_a_glued_turn_is_a_reply_whose_end_is_gone(talk: Talk) -> None:
    talk.ask(" read the file", *GO, _turn("I will"))
    talk.ask("done", *GO, _turn("I will read the"), ON)
    assert (talk.calls[1].branch_reason, talk.calls[1].false_fork) == ("dropped-answer", False)


def test_a_glued_turn_behind_another_beginning_keeps_its_sampled_ids_and_is_a_false_fork(talk: Talk) -> None:
    talk.ask(" read the file", {"role": "user", "content": "go"}, _turn("I will"))
    talk.ask("done", {"role": "user", "content": "stop"}, _turn("I will read the file"), ON)
    wanted = policy().tokenizer.encode("I will") + sampled(" read the file")
    at = talk.input.index(wanted[0])
    assert talk.input[at : at + len(wanted)] == wanted
    assert (talk.calls[1].branch_reason, talk.calls[1].false_fork) == ("unexplained", True)


@pytest.mark.parametrize(
    ("said", "kept", "is_fork"),
    [
        ("read the file and write the word", "Note: read the file and\nwrite the word (by the policy)", True),
        ("read", "> read", True),
        ("read", "a reader of files may read what it likes and says so at length", False),
        ("read the file and write the word", "write the word", False),
        ("", "(no content)", False),
    ],
)
def test_an_answer_that_is_kept_in_another_form_counts_as_a_false_fork(
    talk: Talk, said: str, kept: str, is_fork: bool
) -> None:
    talk.ask(said, *GO)
    talk.ask("done", *GO, _turn(kept), ON)
    call = talk.calls[1]
    assert (call.branch_reason, call.false_fork) == (("unexplained", True) if is_fork else ("edited-reply", False))
    assert divergences([call])[0].of_call == (0 if is_fork else None)
