"""What the API answers: launch, read, act, page; every error is a problem document."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import Call, Execution, Run, RunEvent
from scheduler.config import allowed
from scheduler.models import Decision, Override
from tests.proxy import policies

Machine = Callable[..., Any]


def _post(client: Any, path: str, body: Any, **headers: str) -> Any:
    return client.post(path, body, content_type="application/json", headers=headers)


def test_a_launch_makes_a_queued_run_with_its_event(machine: Machine) -> None:
    reply = _post(machine("launch"), "/api/v1/runs", {"preset": "quickstart", "settings": {"steps": 3}, "name": "ci"})
    assert reply.status_code == 201
    body = reply.json()
    assert (body["name"], body["state"], body["steps"], body["config"]["steps"]) == ("ci", "queued", 3, 3)
    assert RunEvent.objects.get().kind == "run_created"


def test_the_same_idempotency_key_gives_the_same_run(machine: Machine) -> None:
    client, wanted = machine("launch"), {"preset": "quickstart"}
    first = _post(client, "/api/v1/runs", wanted, **{"Idempotency-Key": "build-7"})
    again = _post(client, "/api/v1/runs", wanted, **{"Idempotency-Key": "build-7"})
    other = _post(client, "/api/v1/runs", wanted, **{"Idempotency-Key": "build-8"})
    assert [first.status_code, again.status_code, other.status_code] == [201, 200, 201]
    assert first.json()["id"] == again.json()["id"] != other.json()["id"]


@pytest.mark.parametrize(
    ("body", "field", "hint"),
    [
        ({"preset": "nope"}, "preset", "known presets: mini-swe"),
        ({"settings": {"cels": 2}}, "cels", "known settings"),
        ({"preset": "quickstart", "settings": {"cells": "many"}}, "cells", "number"),
        ({}, "preset", "quickstart-shuffled"),
        ({"preset": "", "name": "ci"}, "preset", "give settings of your own"),
        ({"preset": "quickstart", "settings": {"burst_batches": 9}}, "settings", "max_staleness + 1"),
        ({"preset": "quickstart", "settings": {"task_set": "/nowhere"}}, "task_set", "/nowhere"),
        ({"settings": [1]}, "settings", "dictionary"),
        ({"name": "x" * 200}, "name", "120"),
        ({"preset": "quickstart", "project": "nope"}, "project", "does not exist"),
    ],
)
def test_a_bad_launch_names_the_field_and_starts_nothing(machine: Machine, body: Any, field: str, hint: str) -> None:
    reply = _post(machine("launch"), "/api/v1/runs", body)
    assert reply.status_code == 422
    assert reply.headers["Content-Type"] == "application/problem+json"
    problem = reply.json()
    assert problem["status"] == 422
    assert hint in problem["errors"][field]
    assert Run.objects.count() == 0


def test_a_launch_of_a_harness_that_the_policy_cannot_understand_starts_nothing(
    machine: Machine, tmp_path: Path
) -> None:
    folder = str(policies.write_unfit(tmp_path))
    wanted = {"preset": "quickstart", "settings": {"policy_path": folder}}
    reply = _post(machine("launch"), "/api/v1/runs", wanted)
    assert reply.status_code == 422
    assert folder in reply.json()["errors"]["harness"]
    assert Run.objects.count() == 0


@pytest.mark.parametrize("body", ["{", "[]", '"text"', "nul"])
def test_a_body_that_is_not_a_json_object_is_a_problem(machine: Machine, body: str) -> None:
    reply = _post(machine("launch"), "/api/v1/runs", body)
    assert reply.status_code in (400, 422)
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert set(reply.json()) >= {"type", "title", "status", "detail"}


@pytest.mark.parametrize(
    ("method", "path", "body", "known"),
    [
        ("post", "runs", {"preset": "quickstart", "setings": {"steps": 2}}, "preset, settings, name, project"),
        ("post", "runs", {"preset": 3.5, "setings": {}, "settings": 4}, "preset, settings, name, project"),
        ("post", "runs/{run}/stop", {"reason": "enough", "setings": 1}, "reason"),
        ("post", "runs/{run}/pause", {"setings": 1}, "reason"),
        ("post", "runs/{run}/resume", {"setings": 1}, "reason"),
        ("post", "runs/{run}/overrides", {"kind": "hold_dispatch", "reason": "x", "setings": 1}, "kind, cell_index"),
        ("post", "executions/{execution}/cancel", {"reason": "stuck", "setings": 1}, "reason"),
        ("patch", "cells/{run}-1", {"desired_role": "rollout", "reason": "x", "setings": 1}, "desired_role, suspend"),
    ],
)
def test_a_misspelt_field_of_a_body_is_named_with_the_known_ones_and_nothing_happens(
    machine: Machine, run: Run, method: str, path: str, body: Any, known: str
) -> None:
    execution = Execution.objects.filter(run=run, state="running").first().pk
    before = RunEvent.objects.count()
    address = f"/api/v1/{path.format(run=run.pk, execution=execution)}"
    reply = getattr(machine("launch", "operate"), method)(address, body, content_type="application/json")
    assert reply.status_code == 422
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.json()["errors"]["setings"].startswith(f"unknown field; known fields: {known}")
    assert (Run.objects.count(), RunEvent.objects.count()) == (1, before)


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete", "options"])
@pytest.mark.parametrize("path", ["", "/", "/nothing", "/runs/", "/runs/abc", "/runs/1/nothing", "/cells/x"])
def test_an_address_that_is_none_is_a_problem_for_every_method(client: Any, method: str, path: str) -> None:
    reply = getattr(client, method)(f"/api/v1{path}")
    assert (reply.status_code, reply.headers["Content-Type"]) == (404, "application/problem+json")
    assert reply.json()["detail"] == f"/api/v1{path} is no address of this API; /api/docs/ lists them."


def test_the_page_about_the_api_says_the_scope_of_each_operation_and_shows_code_as_code(
    machine: Machine, admin_client: Any
) -> None:
    reply = admin_client.get("/api/docs/")
    scopes = {operation.id: operation.scope for operation in reply.context["operations"]}
    assert (scopes["runs_launch"], scopes["runs_stop"], scopes["cells_get"]) == ("launch", "operate", "read")
    text = reply.content.decode()
    assert "Needs the scope <b>launch</b>." in text
    assert 'than <code class="mono">after</code>' in text
    settings = {field.name: field for field in reply.context["shapes"]["Settings"]}
    assert "ppo_clip_behaviour" in settings["loss"].choices
    assert settings["cells"].allowed == allowed("cells")
    assert '<a class="link" href="#shape-Settings">Settings</a>' in text


def test_unknown_paths_and_methods_are_problems_too(machine: Machine, run: Run) -> None:
    client = machine("read", "operate")
    assert client.get("/api/v1/runs/987654321").json()["title"] == "Not Found"
    reply = client.delete(f"/api/v1/runs/{run.pk}")
    assert (reply.status_code, reply.json()["status"]) == (405, 405)
    assert "GET" in reply.headers["Allow"]


def test_the_events_are_the_whole_log_in_order(machine: Machine, run: Run) -> None:
    client, seen, after = machine("read"), [], 0
    while True:
        page = client.get(f"/api/v1/runs/{run.pk}/events?after={after}&limit=7").json()
        if not page["results"]:
            break
        seen += [event["seq"] for event in page["results"]]
        after = seen[-1]
    assert seen == list(range(1, run.event_seq + 1))
    assert page["newest"] == run.event_seq


def test_metrics_say_the_seven_facts_and_the_curves(machine: Machine, run: Run) -> None:
    body = machine("read").get(f"/api/v1/runs/{run.pk}/metrics").json()
    assert (body["step"], body["steps"], body["waterlevel"]) == (run.version, 20, run.waterlevel)
    assert body["cells_in_rollout"] + body["cells_in_training"] == 2
    assert [reward["step"] for reward in body["rewards"]] == list(range(1, run.version + 1))
    assert all(0 <= reward["low"] <= reward["mean"] <= reward["high"] <= 1 for reward in body["rewards"])
    assert body["evaluations"][0]["version"] == 0


def test_lists_page_by_cursor_and_reach_every_row_once(machine: Machine, run: Run) -> None:
    client = machine("read")
    lists = {
        f"/api/v1/runs/{run.pk}/executions": (Execution.objects.filter(run=run), "pk", "id"),
        f"/api/v1/runs/{run.pk}/decisions": (Decision.objects.filter(run=run), "number", "number"),
    }
    for path, (rows, column, name) in lists.items():
        seen, cursor = [], ""
        while cursor is not None:
            page = client.get(f"{path}?limit=3&cursor={cursor}").json()
            seen += [row[name] for row in page["results"]]
            cursor = page["next"]
        assert seen == list(rows.order_by(f"-{column}").values_list(column, flat=True))


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "limit=²", "cursor=!!", "cursor=AAAA"])
def test_a_bad_page_is_a_problem(machine: Machine, run: Run, query: str) -> None:
    reply = machine("read").get(f"/api/v1/runs/{run.pk}/executions?{query}")
    assert reply.status_code == 422
    assert query.split("=")[0] in reply.json()["errors"]


def test_executions_obey_the_filters_of_the_page(machine: Machine, run: Run) -> None:
    found = machine("read").get(f"/api/v1/runs/{run.pk}/executions?state=running&limit=500").json()["results"]
    assert {row["state"] for row in found} == {"running"}
    assert len(found) == Execution.objects.filter(run=run, state="running").count()


def test_the_tree_says_what_was_drawn_and_why_not_without_loading_tokens(machine: Machine, run: Run) -> None:
    execution = Call.objects.filter(execution__run=run).first().execution_id
    client = machine("read")
    with CaptureQueriesContext(connection) as captured:
        body = client.get(f"/api/v1/executions/{execution}/tree").json()
    assert not any('"tokens"' in query["sql"] for query in captured.captured_queries)
    assert body["rows"][0] == {
        "depth": 0, "role": "main", "calls": [0, 1, 8, 9], "added_tokens": body["rows"][0]["added_tokens"],
        "sampled_tokens": body["rows"][0]["sampled_tokens"], "trained_tokens": body["rows"][0]["sampled_tokens"],
        "draw": 0, "why": "draw 1: probability 0.78, random 0.41",
    }  # fmt: skip
    assert [row["why"] for row in body["rows"] if row["draw"] is None]


def test_pause_resume_and_stop_keep_their_reason_and_refuse_what_does_not_fit(machine: Machine, run: Run) -> None:
    client = machine("operate", "read")
    path = f"/api/v1/runs/{run.pk}"
    assert _post(client, f"{path}/pause", {}).json()["errors"]["reason"]
    assert _post(client, f"{path}/pause", {"reason": "disk"}).json()["state_reason"] == "disk"
    again = _post(client, f"{path}/pause", {"reason": "disk"})
    assert (again.status_code, again.json()["title"]) == (409, "Conflict")
    assert _post(client, f"{path}/resume", {}).json()["state"] == "starting"
    assert _post(client, f"{path}/stop", {"reason": "enough"}).json()["state"] == "stopping"


def test_an_execution_is_cancelled_once(machine: Machine, run: Run) -> None:
    row = Execution.objects.filter(run=run, state="running").first()
    client = machine("operate")
    assert _post(client, f"/api/v1/executions/{row.pk}/cancel", {"reason": "stuck"}).json()["outcome"] == "cancelled"
    assert _post(client, f"/api/v1/executions/{row.pk}/cancel", {"reason": "stuck"}).status_code == 409


def test_a_cell_is_pinned_through_an_override_with_owner_reason_and_expiry(machine: Machine, run: Run) -> None:
    client = machine("operate", "read")
    names = [cell["name"] for cell in client.get("/api/v1/cells").json()["results"]]
    assert names == [f"{run.pk}-0", f"{run.pk}-1"]
    patch = {"desired_role": "rollout", "reason": "long tail", "expires_in_s": 60}
    reply = client.patch(f"/api/v1/cells/{names[1]}", patch, content_type="application/json")
    assert reply.status_code == 200
    row = Override.objects.get()
    assert (row.kind, row.cell_index, row.value, row.owner.username) == ("pin", 1, {"role": "rollout"}, "ci")
    both = client.patch(f"/api/v1/cells/{names[1]}", {**patch, "suspend": True}, content_type="application/json")
    assert both.status_code == 422
    assert Override.objects.count() == 1


def test_overrides_are_set_listed_and_released(machine: Machine, run: Run) -> None:
    client, path = machine("operate", "read"), f"/api/v1/runs/{run.pk}/overrides"
    bad = _post(client, path, {"kind": "setting", "value": {"name": "steps", "value": 3}, "reason": "x"})
    assert bad.status_code == 409
    assert "rho_min" in bad.json()["detail"]
    made = _post(client, path, {"kind": "setting", "value": {"name": "rho_min", "value": 0.5}, "reason": "try"})
    assert made.status_code == 201
    assert [row["id"] for row in client.get(path).json()["results"]] == [made.json()["id"]]
    mine = f"{path}/{made.json()['id']}"
    longer = client.patch(mine, {"expires_in_s": 86_400, "row_version": 1}, content_type="application/json")
    assert (longer.status_code, longer.json()["row_version"]) == (200, 2)
    assert longer.json()["expires_at"] > made.json()["expires_at"]
    stale = client.patch(mine, {"expires_in_s": 60, "row_version": 1}, content_type="application/json")
    assert (stale.status_code, "changed by somebody else" in stale.json()["detail"]) == (409, True)
    assert client.delete(f"{path}/{made.json()['id']}").json()["released_at"]
    assert client.get(path).json()["results"] == []
    assert client.delete(f"{path}/{made.json()['id']}").status_code == 409
    assert client.delete(f"{path}/424242").status_code == 404


def test_a_preview_of_an_override_says_what_would_be_decided_and_sets_nothing(machine: Machine, run: Run) -> None:
    client, path = machine("read"), f"/api/v1/runs/{run.pk}/overrides"
    found = _post(client, f"{path}/preview", {"kind": "drain", "cell_index": 1})
    assert found.status_code == 200
    without, with_it = ([d["kind"] for d in found.json()[name]] for name in ("without", "with_it"))
    assert "drain_cell" not in without
    assert "drain_cell" in with_it
    assert client.get(path).json()["results"] == []
    assert _post(client, f"{path}/preview", {"kind": "drain"}).status_code == 409


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ("[" * 200_000, 400, "nests objects and lists too deeply"),
        ('{"preset":' * 5_000, 400, "nests objects and lists too deeply"),
        ('{"name": "' + "x" * 3_000_000 + '"}', 413, "at most 2621440 bytes are taken"),
    ],
)
def test_a_body_that_cannot_be_read_is_a_problem_and_no_server_error(
    machine: Machine, body: str, status: int, word: str
) -> None:
    reply = machine("launch").post("/api/v1/runs", body, content_type="application/json")
    assert (reply.status_code, reply.headers["Content-Type"]) == (status, "application/problem+json")
    assert word in reply.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [
        ("get", "runs?stat=live", "cursor, limit, state, q"),
        ("get", "runs/{run}?stat=1", "known ones here:"),
        ("get", "runs/{run}/executions?stat=running&limit=3", "cursor, limit, state, outcome"),
        ("get", "runs/{run}/metrics?stat=", "none"),
        ("get", "runs/{run}/exports/calls.jsonl?stat=running", "state, outcome, kind, group, batch"),
        ("get", "schema?stat=json", "none"),
        ("post", "runs/{run}/stop?stat=x", "none"),
        ("post", "runs/{run}/reassess?stat=finished", "state, outcome"),
        ("delete", "simulations/1?stat=1", "none"),
    ],
)
def test_a_query_parameter_that_an_operation_does_not_know_is_named_with_those_it_knows(
    machine: Machine, run: Run, method: str, path: str, known: str
) -> None:
    before = RunEvent.objects.count()
    reply = getattr(machine("admin"), method)(f"/api/v1/{path.format(run=run.pk)}", content_type="application/json")
    assert (reply.status_code, reply.headers["Content-Type"]) == (422, "application/problem+json")
    assert reply.json()["errors"]["stat"].startswith("unknown query parameter; known ones here: ")
    assert known in reply.json()["errors"]["stat"]
    assert RunEvent.objects.count() == before


@pytest.mark.parametrize(
    ("path", "name", "words"),
    [
        ("runs?state=runing", "state", "one of live, queued"),
        ("runs/{run}/executions?batch=-1", "batch", "a whole number"),
        ("runs/{run}/executions?reward_from=nan", "reward_from", "a number"),
        ("runs/{run}/decisions?accepted=yes", "accepted", "true or false"),
        ("runs/{run}/events?after=x", "after", "a whole number"),
    ],
)
def test_a_value_that_a_query_parameter_cannot_have_is_refused(
    machine: Machine, run: Run, path: str, name: str, words: str
) -> None:
    reply = machine("read").get(f"/api/v1/{path.format(run=run.pk)}")
    assert reply.status_code == 422
    assert reply.json()["errors"][name].startswith(words)


def test_every_address_refuses_unknown_query_parameters(machine: Machine) -> None:
    """Also those that are added later: a view that names its own permissions would not."""
    from gyreweb.api.query import KnownQuery
    from gyreweb.api.urls import v1

    lax = [str(entry.pattern) for entry in v1 if KnownQuery not in entry.callback.cls.permission_classes]
    assert lax == []
