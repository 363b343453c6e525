"""Any harness that is not known: roles by the shape of the traffic (docs/algorithms.md §4)."""

from agents.proxy.profiles.base import Profile

PROFILE = Profile(name="generic", is_open=True)
