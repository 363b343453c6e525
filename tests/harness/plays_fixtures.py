"""Plays Harbor fixtures with the oracle below a home directory and prints {task: [status, value, owner]} as JSON.

Usage: python plays_fixtures.py HOME TASK...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agents.harness.drivers import DRIVERS
from agents.harness.evaluator import Evaluation, evaluate
from agents.harness.sandbox.client import SandboxServer
from agents.harness.worksite import Worksite

FIXTURES = Path(__file__).parents[1] / "fixtures" / "harbor-tasks"


def main() -> None:
    home, *tasks = sys.argv[1:]
    server, found = SandboxServer(), {}
    for name in tasks:
        site = Worksite.open(
            next(FIXTURES.glob(f"*/{name}")), "", DRIVERS["oracle"], Path(home), Path(home, "executions", name)
        )
        site.prepare(server)
        end = server.start(site.harness_spec("", None)).wait(60)
        assert end is not None
        verdict = evaluate(server, site, Evaluation(timeout_s=60))
        owner = (site.workspace.root / "app").stat().st_uid
        found[name] = [verdict.status, verdict.value, owner]
        site.workspace.remove()
    server.close()
    print(json.dumps(found))


main()
