"""mini-swe-agent from PyPI, unmodified, over litellm's OpenAI client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agents.harness.drivers.base import Assignment, HarnessReport, Launch, python_binds
from agents.harness.sandbox.workspace import read_untrusted

_TRAJECTORY = "/logs/agent/trajectory.json"


class MiniSwe:
    name = "mini-swe-agent"
    calls_model = True
    programs: dict[str, str] = {}

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
        command = (
            sys.executable, "-m", "minisweagent.run.mini", "--yolo", "--exit-immediately", "--model", "openai/policy",
            "--cost-limit", "0", "--output", _TRAJECTORY, "--task", assignment.instruction,
        )  # fmt: skip
        return Launch(env=assignment.environment() | own, command=command, binds=python_binds())

    def report(self, agent_logs: Path) -> HarnessReport:
        """From the trajectory file: how often the agent was told that its reply held no usable call."""
        raw = read_untrusted(agent_logs / "trajectory.json", 16 << 20)
        try:
            values = json.loads(raw) if raw else {}
            status = str(values.get("info", {}).get("exit_status", ""))
            return HarnessReport(hit_turn_limit=status == "LimitsExceeded")
        except (ValueError, AttributeError):
            return HarnessReport()
