"""What every dialect owes its official client, whoever samples: run before the scripted engine and before real SGLang.

A `Scene` gives executions and their records. Where a case needs certain words, it is for a scripted scene only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.models import Call, Execution
from tests.proxy.backstage import delta, full_input
from tests.proxy.dialects.speakers import Speaker
from tests.support.waiting import wait_for


@dataclass
class Scene:
    """`begin()` starts an execution: its row and the base URL of its harness."""

    begin: Callable[[], tuple[Execution, str]]
    calls: Callable[[Execution], list[Call]]
    #: The same for a policy whose context has room for hardly anything.
    begin_cramped: Callable[[], tuple[Execution, str]]
    #: Replies have at least so many tokens, when that many are asked for.
    reply_tokens: int


def a_whole_reply_has_true_counts(scene: Scene, speaker: Speaker) -> None:
    execution, base = scene.begin()
    said = speaker.ask(base, [speaker.user("go")], max_tokens=8)
    [call] = scene.calls(execution)
    assert (said.input_tokens, said.output_tokens) == (call.input_tokens, call.output_tokens)
    assert said.output_tokens == len(delta(call).output_ids) > 0
    assert call.state == "complete"
    assert said.text == call.reply["content"]


def a_stream_comes_in_pieces_and_ends_recorded(scene: Scene, speaker: Speaker) -> None:
    execution, base = scene.begin()
    said = speaker.stream(base, [speaker.user("go")], max_tokens=scene.reply_tokens, tools=False)
    [call] = scene.calls(execution)
    assert len(said.pieces) > 1
    assert "".join(said.pieces) == said.text == call.reply["content"]
    assert (said.input_tokens, said.output_tokens) == (call.input_tokens, call.output_tokens)
    assert call.state == "complete"


def the_limit_of_tokens_is_kept_and_told(scene: Scene, speaker: Speaker) -> None:
    execution, base = scene.begin()
    for ask in (speaker.ask, speaker.stream):
        said = ask(base, [speaker.user("go")], max_tokens=3, tools=False)
        assert (said.output_tokens, said.stop) == (3, "length")
    assert [call.output_tokens for call in scene.calls(execution)] == [3, 3]


def an_echoed_reply_is_extended_token_by_token(scene: Scene, speaker: Speaker) -> None:
    execution, base = scene.begin()
    history = [speaker.user("go")]
    first = speaker.stream(base, history, max_tokens=8, tools=False)
    speaker.ask(base, [*history, *first.echo, speaker.user("on")], max_tokens=8, tools=False)
    one, two = scene.calls(execution)
    assert (two.parent_number, two.branch_reason, two.false_fork) == (one.number, "", False)
    sampled = full_input(one) + delta(one).output_ids.tolist()
    assert full_input(two)[: len(sampled)] == sampled


def a_client_that_leaves_does_not_stop_the_recording(scene: Scene, speaker: Speaker) -> None:
    execution, base = scene.begin()
    speaker.leave(base, [speaker.user("go")], num_events=4, max_tokens=scene.reply_tokens)
    [call] = wait_for(lambda: scene.calls(execution), "the call is recorded")
    assert call.state == "truncated"
    assert call.output_tokens == len(delta(call).output_ids) == scene.reply_tokens


def a_prompt_over_the_context_gets_the_dialects_own_words(scene: Scene, speaker: Speaker) -> None:
    execution, base = scene.begin_cramped()
    refused = speaker.refusal(base, [speaker.user("go")])
    assert (refused.exception, refused.status) == ("BadRequestError", 400)
    is_anthropic = speaker.name == "anthropic"
    assert refused.kind == ("invalid_request_error" if is_anthropic else "context_length_exceeded")
    assert scene.calls(execution) == []


def an_image_is_refused_with_the_reason(scene: Scene, speaker: Speaker) -> None:
    execution, base = scene.begin()
    refused = speaker.refusal(base, [speaker.image()])
    assert (refused.exception, refused.status) == ("BadRequestError", 400)
    assert "this model takes text only" in refused.message
    assert scene.calls(execution) == []


def a_dead_key_is_refused_and_not_tried_again(scene: Scene, speaker: Speaker) -> None:
    _, base = scene.begin()
    refused = speaker.refusal(f"{base}-ended", [speaker.user("go")])
    assert (refused.exception, refused.status, refused.is_final) == ("ConflictError", 409, True)


CASES = [
    a_whole_reply_has_true_counts,
    a_stream_comes_in_pieces_and_ends_recorded,
    the_limit_of_tokens_is_kept_and_told,
    an_echoed_reply_is_extended_token_by_token,
    a_client_that_leaves_does_not_stop_the_recording,
    a_prompt_over_the_context_gets_the_dialects_own_words,
    an_image_is_refused_with_the_reason,
    a_dead_key_is_refused_and_not_tried_again,
]
