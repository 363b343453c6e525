"""The reference harness."""

from agents.proxy.profiles.base import SUB_AGENT, Profile, When

PROFILE = Profile(
    name="reference",
    roles=((SUB_AGENT, When(system_starts=("You are a helper.",))),),
    summary=When(last_user_starts=("Summarize what is left.",)),
)
