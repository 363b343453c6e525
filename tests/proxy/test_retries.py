"""Retries of harnesses that never say so: in a conversation that they name, while nobody has read the answer."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from agents.proxy.profiles import claude_code, qwen_code
from tests.proxy.backstage import Backstage

BODY = {
    "model": "m",
    "max_tokens": 50,
    "stream": True,
    "messages": [{"role": "user", "content": "go"}],
    "tools": [{"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}],
}
LONG = "read the file and write the word and read the file and write the word"


@pytest.fixture
def unmarked() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.proxy.registry.profile", lambda _: claude_code.PROFILE)
        yield


def _ask(base: str, session: str = "s1", leave: bool = False) -> str:
    """One streamed call; `leave`: the client goes after the first words."""
    headers = {"x-claude-code-session-id": session} if session else {}
    with httpx.stream("POST", f"{base}/v1/messages", json=BODY, headers=headers, timeout=30) as response:
        if leave:
            assert "message_start" in next(response.iter_text())
            return ""
        return "".join(response.iter_text())


@pytest.mark.usefixtures("unmarked")
def test_an_answer_that_its_client_left_is_given_to_the_same_request_of_the_same_conversation(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, LONG, "done")
    engine.scripted.token_interval_s = 0.02
    execution, base = stage.execution(run)
    _ask(base, leave=True)
    again = _ask(base)
    assert "message_stop" in again
    assert len(engine.requests) == len(stage.calls(execution)) == 1


@pytest.mark.usefixtures("unmarked")
@pytest.mark.parametrize("session", ["s2", ""])
def test_another_conversation_or_none_gets_an_answer_of_its_own(stage: Backstage, session: str) -> None:
    run = stage.run()
    engine = stage.engine(run, LONG, "done")
    engine.scripted.token_interval_s = 0.02
    _, base = stage.execution(run)
    _ask(base, leave=True)
    assert "message_stop" in _ask(base, session)
    assert len(engine.requests) == 2


@pytest.mark.usefixtures("unmarked")
def test_an_answer_that_was_read_to_its_end_is_not_given_again(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, LONG, "done")
    execution, base = stage.execution(run)
    _ask(base)
    _ask(base)
    assert len(engine.requests) == 2
    one, two = stage.calls(execution)
    assert (two.branch_reason, two.false_fork, two.input_tokens) == ("", False, one.input_tokens)


def test_a_harness_that_marks_its_retries_gets_no_answer_twice_without_the_mark(stage: Backstage) -> None:
    run = stage.run()
    engine = stage.engine(run, LONG, "done")
    engine.scripted.token_interval_s = 0.02
    _, base = stage.execution(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agents.proxy.registry.profile", lambda _: qwen_code.PROFILE)
        _ask(base, leave=True)
        _ask(base)
    assert len(engine.requests) == 2
