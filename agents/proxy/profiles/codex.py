"""Codex (seen on 0.171): a JSON header says what a call is for and which thread it belongs to.

The body's `client_metadata` repeats it. A compaction has no tools and asks for a context checkpoint. Failed calls come
again with the same input and without a mark.
"""

from agents.proxy.profiles.base import AUXILIARY, MAIN, SUB_AGENT, Key, Mark, Profile, When

_TURN = "x-codex-turn-metadata"
_THREAD = (f"{_TURN}.thread_id", "thread-id", "thread_id", "conversation_id")
_SAYS_COMPACT = ((f"{_TURN}.request_kind", "compact"), ("x-openai-subagent", "compact"))
_SAYS_AGENT = ((f"{_TURN}.thread_source", "subagent"), ("x-openai-subagent", "spawn"), ("x-openai-subagent", "review"))

PROFILE = Profile(
    name="codex",
    roles=(
        (SUB_AGENT, When(fact_says=_SAYS_AGENT)),
        (SUB_AGENT, When(fact=(f"{_TURN}.parent_thread_id", "x-codex-parent-thread-id"))),
        (MAIN, When(fact_says=((f"{_TURN}.request_kind", "turn"), *_SAYS_COMPACT))),
        (AUXILIARY, When(fact=(f"{_TURN}.request_kind",), without_tools=True)),
        (MAIN, When(fact_says=((f"{_TURN}.thread_source", "user"),))),
    ),
    summaries=(
        When(fact_says=_SAYS_COMPACT),
        When(path_ends=("/responses/compact",)),
        When(without_tools=True, last_user_starts=("You are performing a CONTEXT CHECKPOINT COMPACTION",)),
    ),
    keys=(Key((_THREAD,)),),
    marks_retries=False,
    marks=(
        Mark(0.97, When(fact=(_TURN, f"{_TURN}.thread_id", "x-codex-window-id", "x-codex-beta-features"))),
        Mark(0.9, When(fact_says=(("originator", "codex"), ("user-agent", "codex")))),
        Mark(0.7, When(system_says=("codex cli", "codex, based on"))),
        Mark(0.5, When(tools_any=("exec_command", "apply_patch", "multi_agent_v1__spawn_agent", "update_plan"))),
    ),
)
