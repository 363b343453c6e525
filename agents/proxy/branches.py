"""Why a request leaves recorded tokens, and whether it should have kept them (docs/algorithms.md §2.3). Pure.

A request may leave recorded tokens for one of these reasons, each of which is read off the request and the record:

* *compaction*: the request compacts its conversation. Or it follows a call that did, and holds none of the turns before
  that call. Or it is the second to follow such a call, and the harness has rewritten the messages around the summary.
  Or old tool results were replaced by a notice that they were removed.
* *kept-round*: earlier turns are gone, or several were joined into one. The later turns that stayed now stand in a
  context other than the one in which they were sampled.
* *fork*: a new conversation begins with turns of another one.
* *resume*: a user speaks after a final answer. Every message before is unchanged; only tools or system prompts differ.
* *dropped-answer*: the last answer or its end is gone, or answers without visible content are.

A request is a false fork if it keeps an assistant turn of its conversation, but leaves the recorded tokens before the
end of that turn for none of these reasons. It is one, too, if an answer seems to be gone while its text still stands in
a turn that was not recognised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agents.core.codec import Int32s
from agents.core.tree import common_prefix
from agents.proxy import canonical
from agents.proxy.canonical import Message
from agents.proxy.matching import Match, PriorCall

#: Reasons for which a request may leave recorded tokens although it keeps an assistant turn of its conversation.
TRUE_BRANCHES = frozenset({"compaction", "fork", "resume", "dropped-answer", "kept-round"})
UNEXPLAINED = "unexplained"
#: In place of the last answer stands another text. The harness wrote that turn itself, so it is context.
EDITED = "edited-reply"


@dataclass(frozen=True, slots=True)
class ConversationState:
    """What is known of a request's conversation before the request: `last` is its newest call that is no summary."""

    is_new: bool
    last: PriorCall | None = None
    #: The call that compacted the conversation, if no other call has followed yet.
    summary: PriorCall | None = None
    #: The call that compacted the conversation, if `last` was the first to follow.
    followed: PriorCall | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """A turn that a request keeps in other tokens than the recorded ones: the first `position` ids still agree."""

    call: PriorCall
    position: int
    recorded_ids: tuple[int, ...]
    given_ids: tuple[int, ...]


_SUMMARY_BODY = re.compile(r"<summary>\s*(.*?)\s*</summary>", re.DOTALL | re.IGNORECASE)

#: What a harness writes in place of a tool result that it removed.
_CLEARED = re.compile(r"\b(cleared|pruned|omitted|removed|elided|compacted)\b", re.IGNORECASE)
_NOTICE_CHARS = 240

#: A summary is looked for in so many of a request's first messages.
_OPENING = 8

#: A text of so many characters, not counting spaces, does not stand in another one by accident.
_DISTINCTIVE_CHARS = 16

#: How many recorded ids, and as many given ones, a departure shows.
_SHOWN_IDS = 24


def branch(
    match: Match,
    messages: list[Message],
    conversation: str,
    role: str,
    state: ConversationState,
    input_ids: Int32s,
    prefix_tokens: int,
    start: int,
) -> tuple[str, Departure | None]:
    """Why the request does not simply continue its conversation, and what it should have kept if nothing explains that.

    The reason is "" if the request continues, or if there is nothing to explain. `UNEXPLAINED` comes with a departure.
    `conversation` is "" for one that begins here. The input consists of the first `prefix_tokens` ids of the parent's
    path and of new ids; the messages from `start` on are among the new ids.
    """
    why, gone = _reason(match, messages, role, state)
    left = departure(match, conversation, input_ids, prefix_tokens, start)
    if left is None and why in ("", EDITED, "dropped-answer"):
        kept = [call for call in gone if _is_kept_otherwise(call, match, messages)]
        left = _left(min(kept, key=lambda call: call.number), input_ids) if kept else None
        return (why, None) if left is None else (UNEXPLAINED, left)
    if left is None:
        return why, None
    if why in TRUE_BRANCHES and (not gone or not gone.isdisjoint(left.call.turns())):
        return why, None
    return UNEXPLAINED, left


def _reason(
    match: Match, messages: list[Message], role: str, state: ConversationState
) -> tuple[str, frozenset[PriorCall]]:
    """The reason, and the turns whose absence it rests on: none where it rests on something else."""
    last, parent, none = state.last, match.parent, frozenset[PriorCall]()
    if state.is_new:
        return "fork" if match.recognised else "", none
    if parent is not None and match.after == "reply" and parent in (last, state.summary):
        return "", none
    if parent is not None and match.after == "prompt" and match.start == len(messages):
        return "", none
    if role.endswith("-summary"):
        return "compaction", none
    if any(turn.continuations and turn.at >= match.start for turn in match.turns):
        return "kept-round", none
    if last is None:
        return "compaction" if state.summary is not None else "", none
    held = {call for _, call in match.recognised if not call.role.endswith("-summary")}
    before = [call for call in [last, *last.turns()] if not call.role.endswith("-summary")]
    gone = frozenset(call for call in before if call not in held)
    if state.summary is not None and _carries(messages, state.summary):
        return "kept-round" if held else "compaction", none
    if not gone and state.followed is not None and _carries(messages, state.followed):
        return "compaction", none
    if not gone and _is_cleared(messages[match.start :]):
        return "compaction", none
    if not gone:
        return "resume" if _is_resumed(match, messages, last) else "", none
    if state.summary is not None:
        return "kept-round" if held else "compaction", gone
    if gone == {last} or all(_is_invisible(call.reply) for call in gone):
        return _of_dropped(match, messages), gone
    return "kept-round" if before[-1] in gone and last in held and _is_cut_off(match) else "", gone


def departure(match: Match, conversation: str, input_ids: Int32s, prefix_tokens: int, start: int) -> Departure | None:
    """The first kept turn of the conversation whose recorded tokens the input does not begin with, if there is one.

    A turn that the parent had departed from already does not count again.
    """
    before = match.parent
    whole = _held(before, before.path_tokens) if before is not None else set()
    turns = [
        call
        for at, call in match.recognised
        if at >= start and call.conversation == conversation and (at >= match.start or call in whole)
    ]
    turns = [call for call in turns if not call.role.endswith("-summary")]
    if not turns:
        return None
    held = _held(match.parent, prefix_tokens)
    for call in turns:
        if call in held:
            continue
        if (left := _left(call, input_ids)) is not None:
            return left
    return None


def _left(call: PriorCall, input_ids: Int32s) -> Departure | None:
    """Where the input differs from a call's path; None if it begins with the whole path."""
    path = call.path(call.path_tokens)
    same = common_prefix(path, input_ids)
    if same == len(path):
        return None
    shown = slice(same, same + _SHOWN_IDS)
    return Departure(call, same, tuple(path[shown].tolist()), tuple(input_ids[shown].tolist()))


def _is_kept_otherwise(call: PriorCall, match: Match, messages: list[Message]) -> bool:
    """Whether an answer that seems to be gone still stands in a turn that was not recognised.

    Then the harness kept it, and its tokens should have stayed.
    """
    known = {turn.at for turn in match.turns}
    others = [m for at, m in enumerate(messages) if m["role"] == "assistant" and at not in known]
    return any(_holds(m["content"], call.reply["content"]) for m in others)


def _holds(text: str, reply: str) -> bool:
    """Whether a turn contains a reply, white space aside. A short reply must make up at least half of the turn."""
    held, said = "".join(text.split()), "".join(reply.split())
    return bool(said) and said in held and (len(said) >= _DISTINCTIVE_CHARS or 2 * len(said) >= len(held))


def _held(parent: PriorCall | None, prefix_tokens: int) -> set[PriorCall]:
    """The calls whose whole path lies within the first `prefix_tokens` ids of the parent's path."""
    found: set[PriorCall] = set()
    limit = prefix_tokens
    for call in parent.ancestors() if parent is not None else ():
        if limit >= call.path_tokens:
            found.add(call)
        limit = min(limit, call.prefix_tokens)
    return found


def _of_dropped(match: Match, messages: list[Message]) -> str:
    """Whether the last answer was dropped or cut short, or whether another text stands in its place."""
    if any(turn.is_cut and turn.at >= match.start for turn in match.turns):
        return "dropped-answer"
    is_replaced = match.after == "prompt" and match.parent is not None and messages[match.start]["role"] == "assistant"
    return EDITED if is_replaced else "dropped-answer"


def _is_cut_off(match: Match) -> bool:
    """Whether fewer messages precede the first kept turn than at its sampling: the history lost its beginning."""
    at, call = match.recognised[0]
    return at < call.num_messages


def _is_cleared(messages: list[Message]) -> bool:
    """Whether these messages begin with tool results, and one of these is a notice that its text was removed."""
    for message in messages:
        if message["role"] != "tool":
            return False
        if len(message["content"]) <= _NOTICE_CHARS and _CLEARED.search(message["content"]):
            return True
    return False


def _carries(messages: list[Message], summary: PriorCall) -> bool:
    """Whether one of the first messages carries this summary."""
    said = summary.reply["content"]
    return any(quotes(m["content"], said) for m in messages[:_OPENING] if m["role"] in ("user", "assistant"))


def _is_invisible(reply: Message) -> bool:
    return not reply["content"].strip() and not reply.get("tool_calls")


def _is_resumed(match: Match, messages: list[Message], last: PriorCall) -> bool:
    """Whether a user speaks after the final answer `last`, and all messages up to that answer are unchanged."""
    at = next((at for at, call in reversed(match.recognised) if call is last), None)
    if at is None or canonical.tool_call_ids(last.reply) or match.spoken_keys[at] != last.spoken_full_key:
        return False
    return any(message["role"] == "user" for message in messages[at + 1 :])


def quotes(text: str, reply: str) -> bool:
    """Whether a text contains a summary, or at least its body."""
    found = _SUMMARY_BODY.search(reply)
    said = found[1] if found else reply.strip()
    return bool(said) and said in text
