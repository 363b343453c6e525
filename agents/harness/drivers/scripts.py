"""Agents without a model, for conformance with Harbor: the task's own solution, and nothing at all."""

from __future__ import annotations

from agents.harness.drivers.base import Assignment, Bundled, Launch


class Oracle(Bundled):
    """Runs /solution/solve.sh. A task without one is left as it is."""

    name = "oracle"
    calls_model = False

    def launch(self, assignment: Assignment) -> Launch:
        script = "[ -f /solution/solve.sh ] || exit 0; chmod +x /solution/solve.sh; exec /solution/solve.sh"
        env = assignment.environment() | assignment.solution_env
        return Launch(env=env, command=("/bin/bash", "-c", script))


class Nop(Bundled):
    name = "nop"
    calls_model = False

    def launch(self, assignment: Assignment) -> Launch:
        return Launch(env=assignment.environment(), command=("/bin/true",))


DRIVERS = (Oracle(), Nop())
