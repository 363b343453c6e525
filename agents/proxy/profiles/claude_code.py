"""Claude Code (seen on 2.1.220): sub-agents say who they are in a header; a summary opens with a fixed instruction."""

from agents.proxy.profiles.base import AUXILIARY, SUB_AGENT, Profile, When

PROFILE = Profile(
    name="claude-code",
    roles=(
        (SUB_AGENT, When(header="x-claude-code-agent-id")),
        (AUXILIARY, When(without_tools=True)),
        (AUXILIARY, When(trait="tool_choice")),
        (AUXILIARY, When(trait="output_format")),
    ),
    summary=When(
        last_user_starts=("CRITICAL: Respond with TEXT ONLY",), last_user_contains=("create a detailed summary",)
    ),
    conversation_headers=("x-claude-code-session-id", "x-claude-code-agent-id"),
    marks_retries=False,
)
