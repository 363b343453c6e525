"""Claude Code (seen on 2.1.220).

Sub-agents say who they are in a header, and in the billing line of the system prompt where that is sent. A summary
opens with a fixed instruction in a user's block, which a system message may follow. Calls outside the conversations
(titles, web searches, quota probes) have no tools, force one, or want a format. Failed calls come again without a mark.
"""

from agents.proxy.profiles.base import AUXILIARY, MAIN, SUB_AGENT, Key, Mark, Profile, When

_SESSION = ("x-claude-code-session-id", "metadata.user_id.session_id")
_AGENT = ("x-claude-code-agent-id",)

PROFILE = Profile(
    name="claude-code",
    roles=(
        (SUB_AGENT, When(fact=_AGENT)),
        (AUXILIARY, When(without_tools=True)),
        (AUXILIARY, When(trait="forced_tool")),
        (AUXILIARY, When(trait="output_format")),
        (SUB_AGENT, When(fact_says=(("billing", "cc_is_subagent=true"),))),
        (MAIN, When(fact=("x-claude-code-session-id",))),
    ),
    summaries=(
        When(last_user_starts=("CRITICAL: Respond with TEXT ONLY",), last_user_says=("create a detailed summary",)),
        When(last_user_starts=("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools",)),
        When(without_tools=True, system_says=("tasked with summarizing conversations",)),
    ),
    keys=(Key((_SESSION, _AGENT)), Key((("x-claude-code-session-id",),))),
    marks_retries=False,
    marks=(
        Mark(0.97, When(fact=("x-claude-code-session-id", "x-claude-code-agent-id"))),
        Mark(0.9, When(fact_says=(("user-agent", "claude-cli"), ("user-agent", "claude-code")))),
        Mark(0.8, When(fact_says=(("anthropic-beta", "claude-code-"), ("billing", "cc_version=")))),
        Mark(0.7, When(fact=("metadata.user_id.session_id", "metadata.user_id.device_id"))),
        Mark(0.6, When(system_says=("claude code", "claude agent"))),
        Mark(0.5, When(tools_all=("Bash", "Read", "Edit"))),
    ),
)
