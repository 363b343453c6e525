"""Gyre's own small harness, called in a fork of the sandbox server that has imported it."""

from __future__ import annotations

from agents.core.bounds import count
from agents.harness.drivers.base import Assignment, Bundled, Ended, HarnessReport, Launch, parsed, python_binds
from agents.harness.sandbox.workspace import INSTRUCTION, read_untrusted


class Reference(Bundled):
    name = "reference"
    programs = {"reference": "agents.harness.drivers.warm_reference:main"}

    def launch(self, assignment: Assignment) -> Launch:
        own = {
            "OPENAI_BASE_URL": f"{assignment.base_url}/v1",
            "OPENAI_API_KEY": assignment.key,
            "OPENAI_MODEL": "policy",
            "GYRE_INSTRUCTION": INSTRUCTION,
        }
        return Launch(env=assignment.environment() | own, program=self.name, binds=python_binds())

    def report(self, ended: Ended) -> HarnessReport:
        """From result.json. A harness that was killed has written none."""
        raw = read_untrusted(ended.agent_logs / "result.json", 1 << 16)
        values = parsed(raw)
        if not isinstance(values, dict):
            return HarnessReport()
        return HarnessReport(count(values.get("malformed_calls")), values.get("turn_limit") is True)


DRIVERS = (Reference(),)
