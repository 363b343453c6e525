"""Why a request leaves recorded tokens, and whether it should have kept them (docs/algorithms.md §2.3). Pure.

Every reason is read off the request and the record:

* *compaction*: it compacts its conversation, or follows such a call and holds none of the turns before it; or it is
  the second to do so and the harness has written the opening around the summary once more; or old tool results gave way
  to a notice that says so.
* *kept-round*: earlier turns are gone or were glued, and later ones stand in another context than that of their
  sampling.
* *fork*: it begins a conversation with turns of another one.
* *resume*: a user speaks after a final answer, all that was said before stands as it was, and only the context around
  it (tools, system prompts) was built anew.
* *dropped-answer*: the last answer, its end, or answers without visible content are gone.

A request that keeps an assistant turn of its conversation and leaves the recorded tokens before that turn's end, for
none of these reasons, is a false fork. So is one that seems to drop an answer, and has its text in a turn that was not
recognised.
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
#: The last answer stands there with another text: a turn of the harness's own, which is context.
EDITED = "edited-reply"


@dataclass(frozen=True, slots=True)
class ConversationState:
    """What is known of a request's conversation before it; `last` and `summary` are the newest calls of either kind."""

    is_new: bool
    last: PriorCall | None = None
    #: A call that compacted it and that no call has followed yet.
    summary: PriorCall | None = None
    #: The call that compacted it, where `last` was the first to follow.
    followed: PriorCall | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """A kept turn whose recorded tokens a request does not begin with; they agree up to `position`."""

    call: PriorCall
    position: int
    recorded_ids: tuple[int, ...]
    given_ids: tuple[int, ...]


_SUMMARY_BODY = re.compile(r"<summary>\s*(.*?)\s*</summary>", re.DOTALL | re.IGNORECASE)

#: A notice in place of a tool result that a harness took out.
_CLEARED = re.compile(r"\b(cleared|pruned|omitted|removed|elided|compacted)\b", re.IGNORECASE)
_NOTICE_CHARS = 240

#: Among how many of a request's first messages a summary stands.
_OPENING = 8

#: A text of so many characters without spaces stands nowhere by accident.
_TELLING_CHARS = 16

#: Ids on either side that a departure shows.
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

    "" when it continues or when nothing is to explain; `UNEXPLAINED` with a departure. `conversation` may be "" for one
    that begins here. The request's input begins with `prefix_tokens` of the parent's path; from message `start` on its
    turns stand in it anew.
    """
    why, gone = _reason(match, messages, role, state)
    left = departure(match, conversation, input_ids, prefix_tokens, start)
    if left is None and why in ("", EDITED, "dropped-answer"):
        kept = [call for call in gone if _is_kept_unrecognised(call, match, messages)]
        left = _departure_from(min(kept, key=lambda call: call.number), input_ids) if kept else None
        return (why, None) if left is None else (UNEXPLAINED, left)
    if left is None:
        return why, None
    if why in TRUE_BRANCHES and (not gone or not gone.isdisjoint(left.call.turns())):
        return why, None
    return UNEXPLAINED, left


def _reason(
    match: Match, messages: list[Message], role: str, state: ConversationState
) -> tuple[str, frozenset[PriorCall]]:
    """A reason, and the turns whose absence is the reason (no turns where the reason is another)."""
    last, parent, no_turns = state.last, match.parent, frozenset[PriorCall]()
    if state.is_new:
        return "fork" if match.recognised else "", no_turns
    if parent is not None and match.after == "reply" and parent in (last, state.summary):
        return "", no_turns
    if parent is not None and match.after == "prompt" and match.start == len(messages):
        return "", no_turns
    if role.endswith("-summary"):
        return "compaction", no_turns
    if any(turn.continuations and turn.at >= match.start for turn in match.turns):
        return "kept-round", no_turns
    if last is None:
        return "compaction" if state.summary is not None else "", no_turns
    held = {call for _, call in match.recognised if not call.role.endswith("-summary")}
    before = [call for call in [last, *last.turns()] if not call.role.endswith("-summary")]
    gone = frozenset(call for call in before if call not in held)
    if state.summary is not None and _carries(messages, state.summary):
        return "kept-round" if held else "compaction", no_turns
    if not gone and state.followed is not None and _carries(messages, state.followed):
        return "compaction", no_turns
    if not gone and _is_cleared(messages[match.start :]):
        return "compaction", no_turns
    if not gone:
        return "resume" if _is_resumed(match, messages, last) else "", no_turns
    if state.summary is not None:
        return "kept-round" if held else "compaction", gone
    if gone == {last} or all(_is_invisible(call.reply) for call in gone):
        return _dropped_or_edited(match, messages), gone
    return "kept-round" if before[-1] in gone and last in held and _is_cut_off(match) else "", gone


def departure(match: Match, conversation: str, input_ids: Int32s, prefix_tokens: int, start: int) -> Departure | None:
    """The first kept turn of the conversation whose recorded tokens the input leaves; None when it keeps them all.

    A turn before `match.start` counts only if the parent itself still had all of its tokens: what the parent had left
    already is no departure of this request.
    """
    before = match.parent
    whole_in_parent = _whole_calls(before, before.path_tokens) if before is not None else set()
    turns = [
        call
        for at, call in match.recognised
        if at >= start and call.conversation == conversation and (at >= match.start or call in whole_in_parent)
    ]
    turns = [call for call in turns if not call.role.endswith("-summary")]
    if not turns:
        return None
    held = _whole_calls(match.parent, prefix_tokens)
    for call in turns:
        if call in held:
            continue
        if (left := _departure_from(call, input_ids)) is not None:
            return left
    return None


def _departure_from(call: PriorCall, input_ids: Int32s) -> Departure | None:
    """Where the input leaves a call's path; None when it begins with all of it."""
    path = call.path(call.path_tokens)
    same = common_prefix(path, input_ids)
    if same == len(path):
        return None
    shown = slice(same, same + _SHOWN_IDS)
    return Departure(call, same, tuple(path[shown].tolist()), tuple(input_ids[shown].tolist()))


def _is_kept_unrecognised(call: PriorCall, match: Match, messages: list[Message]) -> bool:
    """Whether an answer that seems to be gone stands in the request all the same, inside a turn that was not
    recognised: its harness kept it, so its tokens should have stayed."""
    known = {turn.at for turn in match.turns}
    others = [m for at, m in enumerate(messages) if m["role"] == "assistant" and at not in known]
    return any(_holds(m["content"], call.reply["content"]) for m in others)


def _holds(text: str, reply: str) -> bool:
    """Whether a turn holds a reply, whatever became of its white space. A short one may stand there by accident."""
    held, said = "".join(text.split()), "".join(reply.split())
    return bool(said) and said in held and (len(said) >= _TELLING_CHARS or 2 * len(said) >= len(held))


def _whole_calls(parent: PriorCall | None, prefix_tokens: int) -> set[PriorCall]:
    """Calls whose whole path stands within the first `prefix_tokens` of the path of `parent`."""
    found: set[PriorCall] = set()
    limit = prefix_tokens
    for call in parent.ancestors() if parent is not None else ():
        if limit >= call.path_tokens:
            found.add(call)
        limit = min(limit, call.prefix_tokens)
    return found


def _dropped_or_edited(match: Match, messages: list[Message]) -> str:
    """The last answers are gone: dropped or cut short, or edited where another turn stands in their place."""
    if any(turn.is_cut and turn.at >= match.start for turn in match.turns):
        return "dropped-answer"
    is_replaced = match.after == "prompt" and match.parent is not None and messages[match.start]["role"] == "assistant"
    return EDITED if is_replaced else "dropped-answer"


def _is_cut_off(match: Match) -> bool:
    """Fewer messages stand before the first kept turn than at its sampling: the history lost its beginning."""
    at, call = match.recognised[0]
    return at < call.num_messages


def _is_cleared(messages: list[Message]) -> bool:
    """The first tool results that differ say that their text was taken out to save room."""
    for message in messages:
        if message["role"] != "tool":
            return False
        if len(message["content"]) <= _NOTICE_CHARS and _CLEARED.search(message["content"]):
            return True
    return False


def _carries(messages: list[Message], summary: PriorCall) -> bool:
    """Whether a summary stands in a conversation's first messages in place of what it sums up."""
    said = summary.reply["content"]
    return any(quotes(m["content"], said) for m in messages[:_OPENING] if m["role"] in ("user", "assistant"))


def _is_invisible(reply: Message) -> bool:
    return not reply["content"].strip() and not reply.get("tool_calls")


def _is_resumed(match: Match, messages: list[Message], last: PriorCall) -> bool:
    """The last answer was final, all up to it was said before, and a user's message follows it."""
    at = next((at for at, call in reversed(match.recognised) if call is last), None)
    if at is None or canonical.tool_call_ids(last.reply) or match.spoken_keys[at] != last.spoken_full_key:
        return False
    return any(message["role"] == "user" for message in messages[at + 1 :])


def quotes(text: str, reply: str) -> bool:
    """Whether a text carries a summary, or the body of it."""
    found = _SUMMARY_BODY.search(reply)
    said = found[1] if found else reply.strip()
    return bool(said) and said in text
