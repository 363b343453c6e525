"""A run on real cells that a machine launches, pauses, resumes and stops over REST."""

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.runs.conftest import LIMIT_S, RUNS, Gyre


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


def wait(what: str, look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.2)
    pytest.fail(f"{what} did not come about within {LIMIT_S} s")


def test_a_run_launched_over_rest_pauses_resumes_and_stops(gyre: Gyre) -> None:
    for name in RUNS:
        gyre.finished(name)
    api = Api(gyre)
    settings = {"steps": 50, "groups_per_batch": 2, "executions_per_group": 4, "eval_every_steps": 0, "eval_tasks": 0}
    run_id = api("POST", "/runs", {"preset": "quickstart", "settings": settings})["id"]

    def run() -> dict[str, Any]:
        return dict(api("GET", f"/runs/{run_id}"))

    wait("the first step", lambda: run()["version"] >= 1)
    assert api("POST", f"/runs/{run_id}/pause", {"reason": "look"})["state"] == "paused"

    def at_rest() -> bool:
        busy = gyre.sql(
            "SELECT 1 FROM agents_execution WHERE run_id = %s AND state IN ('running', 'evaluating')", run_id
        )
        return not busy

    wait("running executions to end", at_rest)
    launched = run()["launched"]
    time.sleep(3)
    assert (run()["state"], run()["launched"]) == ("paused", launched)

    api("POST", f"/runs/{run_id}/resume", {})
    version = run()["version"]
    wait("two more steps", lambda: run()["version"] >= version + 2)
    assert api("POST", f"/runs/{run_id}/stop", {"reason": "enough"})["state"] == "stopping"
    ended = wait("the end", lambda: (found := run())["state"] == "stopped" and found)
    assert ended["state_reason"] == "enough"
    assert ended["waterlevel"] == 0
    cells = gyre.sql("SELECT DISTINCT role FROM scheduler_cell WHERE run_id = %s", run_id)
    assert cells == [("stopped",)]
    verified = gyre.manage("verify_run", str(run_id))
    assert verified.returncode == 0, verified.stdout
