"""Qwen Code (seen on 0.15 and 0.24): no ids at all, so prompts and the shape of the traffic tell.

The main agent introduces itself. A compaction has no tools and another system prompt; it holds a part of the history,
or all of it, as messages. Retries say so in the client's header.
"""

from agents.proxy.profiles.base import MAIN, SUB_AGENT, Mark, Profile, When

PROFILE = Profile(
    name="qwen-code",
    roles=(
        (MAIN, When(with_tools=True, system_starts=("You are Qwen Code",))),
        (SUB_AGENT, When(with_tools=True, system_starts=("You are a general-purpose agent", "You are a file search"))),
    ),
    summaries=(
        When(
            without_tools=True,
            system_says=("summarizes internal chat history", "summarizes", "compress", "summarize the conversation"),
        ),
    ),
    marks=(
        Mark(0.95, When(fact_says=(("user-agent", "qwencode/"), ("user-agent", "qwen-code")))),
        Mark(0.8, When(system_says=("qwen code",))),
        Mark(0.7, When(first_user_says=("this is the qwen code",))),
        Mark(0.6, When(tools_all=("run_shell_command", "read_file", "write_file", "grep_search"))),
    ),
)
