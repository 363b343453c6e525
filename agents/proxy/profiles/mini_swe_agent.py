"""mini-swe-agent: one conversation, nothing else."""

from agents.proxy.profiles.base import Profile

PROFILE = Profile(name="mini-swe-agent")
