"""REST: groups, verdicts, selection, reports, quarantined calls, exports."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from agents.models import Execution, KeptWorkspace, Reassessment
from agents.report import report
from agents.web.outline import REASONS
from tests.processor.records import Made
from tests.support.processed_run import processed_run


@pytest.fixture
def made(db: None) -> Made:
    return processed_run()


@pytest.fixture
def reader(made: Made, machine: Callable[..., Client]) -> Client:
    return machine("read", of=made.run.project)


@pytest.fixture
def execution(made: Made) -> Execution:
    return Execution.objects.get(run=made.run, group__number=0, index=0)


def test_groups_page_by_key_and_carry_what_leaving_out_did(reader: Client, made: Made) -> None:
    first = reader.get(f"/api/v1/runs/{made.run.pk}/groups?limit=2").json()
    assert [group["number"] for group in first["results"]] == [3, 1]
    rest = reader.get(f"/api/v1/runs/{made.run.pk}/groups?limit=2&cursor={first['next']}").json()
    (group,) = rest["results"]
    assert (group["rewards"], group["unresolved"]["num_unresolved"]) == ([1.0, 0.25, 0.0, None], 1)
    assert group["unresolved"]["mean"] > group["unresolved"]["mean_as_zero"]
    assert reader.get(f"/api/v1/groups/{group['id']}").json() == group
    assert reader.get("/api/v1/groups/999999").status_code == 404


def test_the_report_is_that_of_the_command(reader: Client, made: Made) -> None:
    assert reader.get(f"/api/v1/runs/{made.run.pk}/report").json() == json.loads(json.dumps(report(made.run).to_json()))


def test_verdicts_are_listed_with_why_there_will_be_no_other(reader: Client, execution: Execution) -> None:
    found = reader.get(f"/api/v1/executions/{execution.pk}/assessments").json()
    assert [(row["value"], row["in_force"], row["asked_by"]) for row in found["results"]] == [
        (0.5, False, "ann"), (1.0, True, None),
    ]  # fmt: skip
    assert not found["may_be_reassessed"]
    assert "nothing of execution" in found["why_not"]


def test_another_verdict_is_asked_for_with_a_reason_by_who_may_operate(
    reader: Client, made: Made, execution: Execution, machine: Callable[..., Client]
) -> None:
    address = f"/api/v1/executions/{execution.pk}/reassess"
    operator = machine("read", "operate", of=made.run.project)
    refused = operator.post(address, {"reason": "x"}, content_type="application/json")
    assert (refused.status_code, "nothing of execution" in refused.json()["detail"]) == (409, True)
    KeptWorkspace.objects.create(execution=execution, attempt=1, host="h", path="/kept", num_bytes=1)
    assert reader.post(address, {"reason": "x"}, content_type="application/json").status_code == 403
    assert operator.post(address, {}, content_type="application/json").status_code == 422
    done = operator.post(address, {"reason": "the verifier was wrong"}, content_type="application/json")
    assert (done.status_code, done.json()["state"], done.json()["reason"]) == (202, "queued", "the verifier was wrong")
    assert Reassessment.objects.get(pk=done.json()["id"]).owner.get_username() == "ci"
    again = operator.post(address, {"reason": "x"}, content_type="application/json")
    assert again.status_code == 409


def test_a_selection_has_bounds_draws_reasons_and_its_replay(reader: Client, execution: Execution) -> None:
    found = reader.get(f"/api/v1/executions/{execution.pk}/selection").json()
    assert (found["bounds"]["j_max"], len(found["draws"]), found["replays_equal"]) == (2, 2, True)
    assert {"call": 0, "reason_code": "extended", "reason": REASONS["extended"]} in found["passed_over"]
    execution.draws.filter(number=0).update(random=0.25)
    found = reader.get(f"/api/v1/executions/{execution.pk}/selection").json()
    assert found["first_difference"]["where"] == "draws[0].random"


def test_quarantined_calls_and_false_forks_are_listed_with_reasons(reader: Client, made: Made) -> None:
    rows = reader.get(f"/api/v1/runs/{made.run.pk}/calls/quarantined").json()["results"]
    assert {row["reason"] for row in rows} == {'=HYPERLINK("http://example.org")'}
    forks = reader.get(f"/api/v1/runs/{made.run.pk}/calls/false_forks?limit=1").json()
    assert forks["next"]
    assert (forks["results"][0]["expected_ids"], forks["results"][0]["found_ids"]) == ([60, 8], [70])


def _body(reply: Any) -> bytes:
    return b"".join(reply.streaming_content)


@pytest.mark.parametrize("extension", ["jsonl", "csv", "parquet"])
def test_a_table_is_downloaded_as_a_stream_with_the_filters_of_the_list(
    reader: Client, made: Made, extension: str
) -> None:
    address = f"/api/v1/runs/{made.run.pk}/exports/executions.{extension}"
    reply = reader.get(f"{address}?outcome=unresolved")
    assert reply.streaming
    assert reply["Content-Disposition"] == f'attachment; filename="run-{made.run.pk}-executions.{extension}"'
    few, all_of_it = _body(reply), _body(reader.get(address))
    assert 0 < len(few) < len(all_of_it)
    assert reply["X-Total-Rows"] == "1"
    if extension == "jsonl":
        assert [json.loads(line)["outcome"] for line in few.splitlines()] == ["unresolved"]


def test_a_table_that_does_not_exist_is_not_found_and_the_real_ones_are_named(reader: Client, made: Made) -> None:
    for name in ("secrets.csv", "executions.xlsx", "calls.csv"):
        reply = reader.get(f"/api/v1/runs/{made.run.pk}/exports/{name}")
        assert reply.status_code == 404
        assert "trajectories" in reply.json()["detail"]


def test_another_project_sees_none_of_it(made: Made, execution: Execution, machine: Callable[..., Client]) -> None:
    stranger = machine("read", "operate")
    for path in (
        f"/api/v1/runs/{made.run.pk}/groups",
        f"/api/v1/runs/{made.run.pk}/report",
        f"/api/v1/runs/{made.run.pk}/calls/quarantined",
        f"/api/v1/runs/{made.run.pk}/exports/calls.jsonl",
        f"/api/v1/groups/{made.groups[0].pk}",
        f"/api/v1/executions/{execution.pk}/selection",
        f"/api/v1/executions/{execution.pk}/assessments",
    ):
        assert stranger.get(path).status_code == 404, path
    asked = stranger.post(f"/api/v1/executions/{execution.pk}/reassess", {"reason": "x"}, "application/json")
    assert asked.status_code == 404
