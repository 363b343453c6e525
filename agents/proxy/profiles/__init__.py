"""One profile per harness. A new harness is one file here that defines `PROFILE`; nothing else needs an entry."""

from importlib import import_module
from pkgutil import iter_modules

from agents.proxy.profiles import generic
from agents.proxy.profiles.base import Profile

PROFILES: dict[str, Profile] = {
    harness.name: harness
    for found in iter_modules(__path__)
    if (harness := getattr(import_module(f"{__name__}.{found.name}"), "PROFILE", None)) is not None
}


def profile(name: str) -> Profile:
    """The profile of a harness; the generic one for a harness that has none of its own."""
    return PROFILES.get(name, generic.PROFILE)
