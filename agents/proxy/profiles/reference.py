"""The reference harness."""

from agents.proxy.profiles.base import MAIN, SUB_AGENT, Mark, Profile, When

PROFILE = Profile(
    name="reference",
    roles=((SUB_AGENT, When(system_starts=("You are a helper.",))),),
    otherwise=MAIN,
    summaries=(When(last_user_starts=("Summarize what is left.",)),),
    marks=(
        Mark(0.9, When(system_starts=("You are a helper. Do the job", "You are an agent. Do the task"))),
        Mark(0.6, When(tools_all=("bash", "delegate"))),
    ),
)
