"""One profile per harness. A new harness is one file here."""

from agents.proxy.profiles import claude_code, codex, generic, mini_swe_agent, opencode, qwen_code, reference
from agents.proxy.profiles.base import Profile

PROFILES: dict[str, Profile] = {
    module.PROFILE.name: module.PROFILE
    for module in (generic, reference, mini_swe_agent, claude_code, qwen_code, codex, opencode)
}


def profile(name: str) -> Profile:
    """The profile of a harness; the generic one for a harness that has none of its own."""
    return PROFILES.get(name, generic.PROFILE)
