"""A run on real cells that a machine launches, pauses, resumes and stops over REST."""

import json
import urllib.request
from operator import not_
from typing import Any

from tests.runs.conftest import LIMIT_S, RUNS, Gyre
from tests.support.waiting import wait_for


class Api:
    """Calls of one token."""

    def __init__(self, gyre: Gyre) -> None:
        made = gyre.manage("create_token", "ci", "--scopes", "read,launch,operate")
        assert made.returncode == 0, made.stderr
        self._secret = made.stdout.strip()
        self._base = f"http://127.0.0.1:{gyre.variables['GYRE_WEB_PORT']}/api/v1"

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            self._base + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self._secret}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())


def test_a_run_launched_over_rest_pauses_resumes_and_stops(gyre: Gyre) -> None:
    for name in RUNS:
        gyre.finished(name)
    api = Api(gyre)
    settings = {"steps": 50, "groups_per_batch": 2, "executions_per_group": 4, "eval_every_steps": 0, "eval_tasks": 0}
    run_id = api("POST", "/runs", {"preset": "quickstart", "settings": settings})["id"]

    def run() -> dict[str, Any]:
        return dict(api("GET", f"/runs/{run_id}"))

    def reaches(version: int) -> None:
        wait_for(lambda: run()["version"], f"version {version}", LIMIT_S, until=lambda seen: seen >= version)

    reaches(1)
    assert api("POST", f"/runs/{run_id}/pause", {"reason": "look"})["state"] == "paused"
    # What was told to start before the pause may start; while all of it ends, the scheduler wakes again and again.
    [(launchable,)] = gyre.sql(
        "SELECT launched + (SELECT count(*) FROM agents_execution e WHERE e.run_id = r.id AND state = 'queued')"
        " FROM agents_run r WHERE id = %s",
        run_id,
    )
    busy = "SELECT id FROM agents_execution WHERE run_id = %s AND state IN ('queued', 'running', 'evaluating')"
    wait_for(lambda: gyre.sql(busy, run_id), "its executions end", LIMIT_S, until=not_)
    assert run()["state"] == "paused"
    assert run()["launched"] <= launchable

    api("POST", f"/runs/{run_id}/resume", {})
    reaches(run()["version"] + 2)
    assert api("POST", f"/runs/{run_id}/stop", {"reason": "enough"})["state"] == "stopping"
    ended = wait_for(run, "the run stops", LIMIT_S, until=lambda seen: seen["state"] == "stopped")
    assert ended["state_reason"] == "enough"
    assert ended["waterlevel"] == 0
    cells = gyre.sql("SELECT DISTINCT role FROM scheduler_cell WHERE run_id = %s", run_id)
    assert cells == [("stopped",)]
    verified = gyre.manage("verify_run", str(run_id))
    assert verified.returncode == 0, verified.stdout
