"""mini-swe-agent from PyPI, unmodified, over litellm's OpenAI client. Gyre's own environment has one version of it."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version

from agents.harness.drivers.base import PLACE, Assignment, Bundled, Ended, HarnessReport, Launch, parsed, python_binds
from agents.harness.install.recipe import Recipe
from agents.harness.sandbox.base import Bind
from agents.harness.sandbox.workspace import read_untrusted

_TRAJECTORY = "/logs/agent/trajectory.json"


class MiniSwe(Bundled):
    name = "mini-swe-agent"
    version = installed_version("mini-swe-agent")

    def recipe(self, version: str) -> Recipe | None:
        if version == self.version:
            return None
        program = "packages/minisweagent/__init__.py"
        return Recipe(self.name, version, "pip", {"mini-swe-agent": version}, program, size_mb=730)

    def launch(self, assignment: Assignment) -> Launch:
        own = {
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": f"{assignment.home}/.mswea",
            "MSWEA_SILENT_STARTUP": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENAI_API_KEY": assignment.key,
            "OPENAI_API_BASE": f"{assignment.base_url}/v1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        binds = python_binds()
        if assignment.installed is not None:
            own["PYTHONPATH"] = f"{PLACE}/packages"
            binds = (*binds, Bind(assignment.installed.place, PLACE))
        command = (
            sys.executable, "-m", "minisweagent.run.mini", "--yolo", "--exit-immediately", "--model", "openai/policy",
            "--cost-limit", "0", "--output", _TRAJECTORY, "--task", assignment.instruction,
        )  # fmt: skip
        return Launch(env=assignment.environment() | own, command=command, binds=binds)

    def report(self, ended: Ended) -> HarnessReport:
        """From the trajectory file: how often the agent was told that its reply held no usable call."""
        raw = read_untrusted(ended.agent_logs / "trajectory.json", 16 << 20)
        values = parsed(raw)
        info = values.get("info") if isinstance(values, dict) else None
        return HarnessReport(hit_turn_limit=isinstance(info, dict) and info.get("exit_status") == "LimitsExceeded")


DRIVERS = (MiniSwe(),)
