"""OpenCode (seen on 1.18): each conversation has its session id, a sub-agent's also that of its parent.

A sub-agent's compaction lacks the parent's id: its own id tells whose it is. Titles and compactions have no tools and
system prompts of their own. Failed calls come again without a mark.
"""

from agents.proxy.profiles.base import AUXILIARY, SUB_AGENT, Key, Mark, Profile, When

PROFILE = Profile(
    name="opencode",
    roles=(
        (SUB_AGENT, When(fact=("x-parent-session-id",))),
        (AUXILIARY, When(without_tools=True, system_says=("title generator", "generate a title"))),
        (AUXILIARY, When(without_tools=True, first_user_says=("generate a title",))),
    ),
    summaries=(
        When(without_tools=True, system_says=("summarization agent", "tasked with summarizing", "anchored context")),
    ),
    keys=(Key((("x-session-id", "x-session-affinity"),)),),
    marks_retries=False,
    marks=(
        Mark(0.95, When(fact_says=(("user-agent", "opencode/"),))),
        Mark(0.7, When(fact=("x-session-affinity", "x-parent-session-id"))),
        Mark(0.8, When(system_says=("you are opencode",))),
        Mark(0.5, When(tools_all=("bash", "edit", "glob", "grep", "read", "webfetch"))),
    ),
)
