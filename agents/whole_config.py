"""The settings of a whole run, which the layers above compose of their own parts and ours.

Agents create and import whole runs and so must check settings that they know nothing of; everything else here takes its
part (`agents.config`). Which module composes them is a Django setting, as the user model is.
"""

from importlib import import_module
from typing import Any

from django.conf import settings

from agents.config import AgentSettings


def parse(values: dict[str, Any]) -> AgentSettings:
    """Validate a run's settings. Raises BadConfig with every field that is wrong."""
    found: AgentSettings = import_module(settings.RUN_CONFIG).parse(values)
    return found


def preset(name: str, changes: dict[str, Any]) -> AgentSettings:
    """The named preset with `changes` on top. Raises BadConfig for an unknown name or setting."""
    found: AgentSettings = import_module(settings.RUN_CONFIG).preset(name, **changes)
    return found
