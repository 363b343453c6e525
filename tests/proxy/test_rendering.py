"""Rendering turn by turn agrees with the official template and extends by appending."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.proxy.rendering import BadPolicyFolder, Rendering
from agents.proxy.tokenizer import PolicyTokenizer
from tests.proxy.backstage import policy

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]


def _call(command: str) -> dict:
    function = {"name": "bash", "arguments": {"command": command}}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


TURNS = st.lists(
    st.sampled_from(
        [
            {"role": "user", "content": "write the file"},
            {"role": "tool", "content": "apple", "tool_call_id": "1"},
            {"role": "tool", "content": "", "tool_call_id": "1"},
            {"role": "system", "content": "read"},
            {"role": "assistant", "content": "done"},
            _call("cat a.txt"),
        ]
    ),
    max_size=7,
)
OPENING = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "go"}]


@given(TURNS, st.integers(0, 7))
def test_a_longer_request_begins_with_the_ids_of_a_shorter_one_and_its_reply(turns, cut) -> None:
    before, after = [*OPENING, *turns[:cut]], turns[cut:]
    rendering, reply = policy(), {"role": "assistant", "content": "read the word"}
    context = rendering.prompt(before, TOOLS) + rendering.assistant(reply)
    whole = rendering.prompt([*before, reply, *after], TOOLS)
    assert whole[: len(context)] == context
    assert whole == context + rendering.continuation(after, "reply").ids


@given(TURNS)
def test_a_demonstration_marks_exactly_the_assistants_own_tokens(turns) -> None:
    rendering = policy()
    rendered = rendering.conversation([*OPENING, *turns], TOOLS)
    own = [rendering.assistant(turn) for turn in turns if turn["role"] == "assistant"]
    assert [i for i, s in zip(rendered.ids, rendered.sampled, strict=True) if s] == [i for ids in own for i in ids]


def test_the_opening_and_the_turns_after_it_are_those_of_the_official_template() -> None:
    from transformers import AutoTokenizer

    rendering = policy()
    messages = [*OPENING, _call("cat a.txt"), {"role": "tool", "content": "apple", "tool_call_id": "1"}]
    official = AutoTokenizer.from_pretrained(rendering.tokenizer.name_or_path)
    text = official.apply_chat_template(messages, tools=TOOLS, add_generation_prompt=True, tokenize=False)
    assert rendering.tokenizer.decode(rendering.prompt(messages, TOOLS)) == text


@given(st.text())
def test_ids_become_the_text_that_they_came_from_however_they_arrive(text) -> None:
    tokenizer: PolicyTokenizer = policy().tokenizer
    ids = tokenizer.encode(text)
    decoder = tokenizer.incremental()
    assert "".join(decoder.feed([i]) for i in ids) + decoder.flush() == tokenizer.decode(ids)


def test_a_folder_without_a_policy_is_refused_with_the_reason(tmp_path) -> None:
    with pytest.raises(BadPolicyFolder, match="no policy folder"):
        Rendering(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "mystery"}')
    with pytest.raises(BadPolicyFolder, match="mystery"):
        Rendering(tmp_path)
