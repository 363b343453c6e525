"""The REST twin of the what-if page: ask, read, cancel, preview, apply; scopes decide who may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from agents.actions.api_tokens import create_token
from agents.models import Project, Run, RunEvent
from gyreweb.api.auth import new_secret
from scheduler.models import Override, WhatIf
from scheduler.simulator.whatif import work
from scheduler.simulator.whatif.reading import present
from tests.support.demo_run import Shape, demo_run

Machine = Callable[..., Client]


@pytest.fixture
def machine(project: Project) -> Machine:
    def make(*scopes: str) -> Client:
        user = get_user_model().objects.get_or_create(username="ci", is_superuser=True)[0]
        secret, digest = new_secret()
        create_token(
            project=project, user=user, name="ci", scopes=scopes, digest=digest, prefix=secret[:12], expires_at=None
        )
        return Client(headers={"Authorization": f"Bearer {secret}"})

    return make


def post(client: Client, url: str, body: dict[str, Any]) -> Any:
    return client.post(url, body, content_type="application/json")


def test_a_machine_asks_waits_and_reads_points_with_their_intervals(machine: Machine, run: Run) -> None:
    client, url = machine("read", "operate"), f"/api/v1/runs/{run.pk}/what-if"
    reply = post(client, url, {"settings": {"rho_min": [0.4, 0.7], "cells": [4]}, "seeds": 3})
    assert reply.status_code == 201, reply.content
    asked = reply.json()
    assert (asked["state"], asked["num_to_do"], asked["span"]) == ("queued", 9, "rest")
    work.work_on(asked["id"])
    found = client.get(f"{url}/{asked['id']}").json()
    assert found["state"] == "finished"
    assert [point["changes"] for point in found["points"]] == [
        {}, {"cells": 4, "rho_min": 0.4}, {"cells": 4, "rho_min": 0.7},
    ]  # fmt: skip
    mean, low, high = found["points"][1]["ratio"]
    assert low <= mean <= high
    assert found["points"][1]["can_apply"] is False
    assert "a run keeps its cells" in found["points"][1]["why_not"]
    assert found["recommendation"]
    assert found["fit"]["groups"] == 9
    listed = client.get(url).json()
    assert [row["id"] for row in listed["results"]] == [asked["id"]]
    assert listed["present"]["cells"] == 3
    assert listed["lacking"] == ""


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"settings": {"rho_min": [2]}}, "rho_min", "in (0, 1]"),
        ({"settings": {"cells": [1]}}, "cells", "concurrency_per_cell"),
        ({"settings": {"cells": ["many"]}}, "cells", "'many' is no number"),
        ({"settings": {"burst_batches": [3]}}, "burst_batches", "max_staleness"),
        ({"settings": {"temperature": [1]}}, "temperature", "what can be asked: cells, cell_size"),
        ({"settings": {"policy_kind": ["fastest"]}}, "policy_kind", "known: elastic"),
        ({"settings": {"policy_kind": ["async-best"]}}, "policy_kind", "needs training_cells"),
        ({"settings": {"cell_size": [2]}}, "cell_size", "1.5 cells"),
        ({"settings": {"cells": [3]}}, "form", "nothing differs"),
        ({"settings": {"cells": [3, 4], "j_max": [1, 2], "rho_min": [0.1, 1]}}, "form", "at most 2 settings"),
        ({"settings": {"j_max": list(range(1, 60)), "rho_min": [0.1, 1]}}, "form", "combinations are too many"),
        ({"settings": {"j_max": [1]}, "seeds": 1}, "seeds", "greater than or equal to 3"),
        ({"settings": {"j_max": [1]}, "span": "hours"}, "hours", "more than 0"),
        ({"settings": {"j_max": [1]}, "spam": 1}, "spam", "unknown field"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_its_field(
    machine: Machine, run: Run, body: dict[str, Any], field: str, words: str
) -> None:
    reply = post(machine("read", "operate"), f"/api/v1/runs/{run.pk}/what-if", body)
    assert reply.status_code == 422
    assert words in reply.json()["errors"][field]
    assert not WhatIf.objects.exists()


def test_a_reading_token_may_look_and_nothing_else(machine: Machine, run: Run, asked: Callable[..., WhatIf]) -> None:
    row, client = asked(rho_min="0.4"), machine("read")
    url = f"/api/v1/runs/{run.pk}/what-if"
    assert client.get(url).status_code == 200
    assert client.get(f"{url}/{row.pk}").status_code == 200
    assert client.get(f"{url}/{row.pk}/points/1/apply").status_code == 200
    for path, body in (
        (url, {"settings": {"j_max": [1]}}),
        (f"{url}/{row.pk}/cancel", {}),
        (f"{url}/{row.pk}/resume", {}),
        (f"{url}/{row.pk}/points/1/apply", {"reason": "why"}),
    ):
        assert post(client, path, body).status_code == 403
    row.refresh_from_db()
    assert row.state == "queued"
    assert not Override.objects.exists()


def test_another_projects_run_does_not_exist(machine: Machine, run: Run) -> None:
    client = machine("read", "operate")
    Run.objects.filter(pk=run.pk).update(project=Project.objects.create(slug="other", name="Other"))
    assert client.get(f"/api/v1/runs/{run.pk}/what-if").status_code == 404
    assert post(client, f"/api/v1/runs/{run.pk}/what-if", {"settings": {"j_max": [1]}}).status_code == 404


def test_applying_sets_one_override_per_setting_with_its_reason_in_the_log(
    machine: Machine, run: Run, asked: Callable[..., WhatIf]
) -> None:
    row, client = asked(rho_min="0.4", j_max="2"), machine("read", "operate")
    url = f"/api/v1/runs/{run.pk}/what-if/{row.pk}/points/1/apply"
    preview = client.get(url).json()
    assert preview["without"] != []
    assert {line["kind"] for line in preview["with_it"]}
    reply = post(client, url, {"reason": "the what-if says so", "expires_in_s": 600})
    assert reply.status_code == 201, reply.content
    assert sorted((one["value"]["name"], one["value"]["value"]) for one in reply.json()["results"]) == [
        ("j_max", 2), ("rho_min", 0.4),
    ]  # fmt: skip
    assert RunEvent.objects.filter(run=run, kind="override_set").count() == 2
    assert client.get(f"/api/v1/runs/{run.pk}/what-if").json()["present"]["rho_min"] == 0.4


def test_what_cannot_be_changed_live_is_not_applied_and_says_why(
    machine: Machine, run: Run, asked: Callable[..., WhatIf]
) -> None:
    row, client = asked(cells="4", rho_min="0.4"), machine("read", "operate")
    base = f"/api/v1/runs/{run.pk}/what-if/{row.pk}/points"
    refused = post(client, f"{base}/1/apply", {"reason": "why"})
    assert (refused.status_code, Override.objects.count()) == (409, 0)
    assert "K: a run keeps its cells" in refused.json()["detail"]
    assert "nothing to apply" in post(client, f"{base}/0/apply", {"reason": "why"}).json()["detail"]
    assert client.get(f"{base}/9/apply").status_code == 404


def test_cancelling_twice_and_resuming_a_finished_one_conflict(
    machine: Machine, run: Run, asked: Callable[..., WhatIf]
) -> None:
    row, client = asked(rho_min="0.4"), machine("read", "operate")
    url = f"/api/v1/runs/{run.pk}/what-if/{row.pk}"
    assert post(client, f"{url}/cancel", {}).json()["state"] == "cancelled"
    assert post(client, f"{url}/cancel", {}).status_code == 409
    assert post(client, f"{url}/resume", {}).json()["state"] == "queued"
    work.work_on(row.pk)
    assert post(client, f"{url}/resume", {}).status_code == 409


def test_a_run_that_has_recorded_too_little_says_how_much_is_needed(machine: Machine, project: Project) -> None:
    young = demo_run(project=project, shape=Shape(bursts=1, stop_at=0.02))
    client, url = machine("read", "operate"), f"/api/v1/runs/{young.pk}/what-if"
    lacking = present(young).lacking
    assert lacking
    assert client.get(url).json()["lacking"] == lacking
    reply = post(client, url, {"settings": {"j_max": [1]}})
    assert reply.status_code == 409
    assert reply.json()["detail"].endswith(lacking)


def test_only_a_few_are_worked_on_at_once(machine: Machine, run: Run, asked: Callable[..., WhatIf]) -> None:
    for share in ("0.3", "0.4", "0.5"):
        asked(rho_min=share)
    reply = post(machine("read", "operate"), f"/api/v1/runs/{run.pk}/what-if", {"settings": {"j_max": [1]}})
    assert reply.status_code == 409
    assert "3 what-ifs of this run are under way" in reply.json()["detail"]


def test_a_run_that_has_ended_can_only_be_asked_as_a_whole(machine: Machine, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state="stopped")
    client, url = machine("read", "operate"), f"/api/v1/runs/{run.pk}/what-if"
    assert post(client, url, {"settings": {"j_max": [1]}}).status_code == 409
    reply = post(client, url, {"settings": {"j_max": [1]}, "span": "whole", "seeds": 3})
    assert reply.status_code == 201
    work.work_on(reply.json()["id"])
    found = client.get(f"{url}/{reply.json()['id']}").json()
    assert [point["steps"] for point in found["points"]] == [8, 8]
