"""A saved simulation: its rows, its pages, the API, and that it never mixes with live runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.actions.api_tokens import create_token
from agents.models import Project, Run
from gyreweb.api.auth import new_secret
from scheduler.core.decide import decide
from scheduler.core.policies import policy_of
from scheduler.core.snapshot import Snapshot
from scheduler.models import Cell, Decision
from scheduler.simulator.studies.models import SimulatedDecision, SimulatedRun, Simulation
from tests.simulations.small import small_file
from tests.support.demo_run import Shape, demo_project, demo_run

SHAPE = Shape(groups_per_batch=3, executions_per_group=3, bursts=2, cells=3, concurrency=6, steps=8)


@pytest.fixture
def browser(db: None) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root", "root@example.org", "secret"))
    return client


@pytest.fixture
def saved(db: None, tmp_path: Path) -> Simulation:
    call_command(
        "simulate", "--preset", small_file(tmp_path), "--policy", "elastic,async-best", "--seeds", "2", "--save",
        "--set", "rho_min=0.5", "--json",
    )  # fmt: skip
    return Simulation.objects.get()


def test_saving_keeps_scenario_figures_series_and_decisions_and_touches_no_live_row(saved: Simulation) -> None:
    assert (saved.settings["rho_min"], saved.changes, saved.seeds) == (0.5, {"rho_min": 0.5}, [1, 2])
    runs = list(SimulatedRun.objects.order_by("pk"))
    assert [(run.policy_kind, run.seed, bool(run.series)) for run in runs] == [
        ("elastic", 1, True), ("elastic", 2, False), ("async-best", 1, True), ("async-best", 2, False),
    ]  # fmt: skip
    assert runs[2].training_cells == saved.summary["best_split"]["training_cells"]
    assert {run.pk for run in runs if run.decisions.exists()} == {runs[0].pk, runs[2].pk}
    assert "--set rho_min=0.5" in saved.command
    assert [model.__name__ for model in (Run, Cell, Decision) if model.objects.exists()] == []


def test_saved_snapshots_are_decided_again_the_same(saved: Simulation) -> None:
    rows = list(SimulatedDecision.objects.filter(snapshot__isnull=False))
    for row in rows:
        snapshot = Snapshot.from_json(row.snapshot)
        again = decide(snapshot, policy_of(snapshot.policy_kind), snapshot.taken_at_s)
        assert (row.kind, row.cell_index, row.accepted, row.reason) in [
            (d.kind.value, d.cell_index, d.accepted, d.reason) for d in again
        ]
    assert len(rows) > 50


def test_each_point_of_a_sweep_is_saved_by_itself(db: None, tmp_path: Path) -> None:
    call_command(
        "simulate", "--preset", small_file(tmp_path), "--policy", "elastic", "--seeds", "1", "--save",
        "--sweep", "rho_min=0.4,0.8", "--json",
    )  # fmt: skip
    assert [row.changes for row in Simulation.objects.order_by("pk")] == [{"rho_min": 0.4}, {"rho_min": 0.8}]


def test_the_pages_answer_marked_as_simulated(browser: Client, saved: Simulation) -> None:
    listed = browser.get("/simulations/").content.decode()
    assert "small" in listed
    assert f'href="/simulations/{saved.pk}/"' in listed
    assert "simulated" in listed
    for query in ("", "?policy=async-best", "?window=6+h&from=1", "?window=6+h&from=nan", "?policy=nonsense"):
        reply = browser.get(f"/simulations/{saved.pk}/{query}")
        assert reply.status_code == 200
        text = reply.content.decode()
        assert "every cell rolls out" not in text
        assert "the fastest of all splits" in text
        assert saved.command in text
    assert browser.get(f"/simulations/{saved.pk}/?policy=async-best").context["shown"].policy_kind == "async-best"


def test_the_comparison_is_over_all_seeds_as_the_command_tells_it(browser: Client, saved: Simulation) -> None:
    rows = {row.policy: row for row in browser.get(f"/simulations/{saved.pk}/").context["policies"]}
    for policy in ("elastic", "async-best"):
        results = [run.result for run in saved.runs.filter(policy_kind=policy).order_by("seed")]
        bounds = [result["bound_h_per_step"] for result in results]
        row = rows[policy]
        assert len(set(bounds)) == 2
        assert row.bound == pytest.approx(sum(bounds) / 2)
        assert row.over == pytest.approx(saved.summary["hours_per_step"][policy] / row.bound - 1.0)
        assert row.cell_hours == pytest.approx(saved.summary["hours"][policy] * saved.settings["cells"])
        assert row.moves == pytest.approx(sum(result["switches"] for result in results) / 2)
        assert row.busy == pytest.approx(sum(result["utilisation"]["training_busy"] for result in results) / 2)


def test_the_navigation_leads_to_simulations_and_an_empty_list_says_the_command(browser: Client) -> None:
    assert 'href="/simulations/"' in browser.get("/").content.decode()
    assert "manage.py simulate --preset baseline-set" in browser.get("/simulations/").content.decode()


def test_the_chart_holds_the_whole_run_or_the_window(browser: Client, saved: Simulation) -> None:
    whole = browser.get(f"/simulations/{saved.pk}/").context["water"]
    run = saved.runs.get(policy_kind="elastic", seed=1)
    assert (whole["since"], whole["until"]) == (0.0, pytest.approx(run.hours * 3600))
    assert whole["relative"]
    assert [lane["name"] for lane in whole["lanes"]] == ["core", "cell 1", "cell 2"]
    assert all(lane["spans"][-1][1] == pytest.approx(whole["until"]) for lane in whole["lanes"])
    assert [number for _, number in whole["steps"]] == list(range(1, 9))
    assert max(level for _, level in whole["water"]) == 48
    run.hours = 100.0
    run.save(update_fields=["hours"])
    part = browser.get(f"/simulations/{saved.pk}/?window=6+h&from=1").context["water"]
    assert (part["since"], part["until"]) == (3600.0, 7 * 3600.0)
    assert all(3600.0 <= span[0] < span[1] <= 7 * 3600.0 for lane in part["lanes"] for span in lane["spans"])


def test_decisions_are_filtered_paged_and_show_what_decide_saw(browser: Client, saved: Simulation) -> None:
    address = f"/simulations/{saved.pk}/decisions/"
    rows = browser.get(address).context["decisions"]
    assert [row.number for row in rows] == sorted((row.number for row in rows), reverse=True)
    refused = browser.get(f"{address}?accepted=no&cell=1").context["decisions"]
    assert refused
    assert not any(row.accepted for row in refused)
    last = rows[-1].number
    older = browser.get(f"{address}?before={last}", headers={"HX-Request": "true"})
    assert b"<html" not in older.content
    run = saved.runs.get(policy_kind="elastic", seed=1)
    inputs = browser.get(f"/simulations/{saved.pk}/runs/{run.pk}/decisions/{last}.json").json()
    assert inputs["snapshot"]["policy_kind"] == "elastic"


def test_a_simulation_of_another_project_does_not_exist(saved: Simulation) -> None:
    outsider = get_user_model().objects.create_user("outsider")
    Project.objects.create(slug="other", name="Other").members.add(outsider)
    client = Client()
    client.force_login(outsider)
    for path in ("", "decisions/"):
        assert client.get(f"/simulations/{saved.pk}/{path}").status_code == 404
    assert not client.get("/simulations/").context["rows"]
    assert Client().get(f"/simulations/{saved.pk}/").status_code == 302


def test_pages_of_simulations_cost_few_queries_and_load_no_snapshots(browser: Client, saved: Simulation) -> None:
    for path, most in (
        ("/simulations/", 6),
        (f"/simulations/{saved.pk}/", 10),
        (f"/simulations/{saved.pk}/decisions/", 9),
    ):
        browser.get(path)
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(path).status_code == 200
        selected = [query["sql"].split(" FROM ")[0] for query in captured.captured_queries]
        assert len(selected) <= most, "\n".join(selected)
        assert not any('"snapshot"' in sql for sql in selected)


def test_deleting_takes_everything_of_the_simulation_and_needs_the_permission(saved: Simulation) -> None:
    reader = get_user_model().objects.create_user("reader")
    saved.project.members.add(reader)
    client = Client()
    client.force_login(reader)
    assert "Delete" not in client.get(f"/simulations/{saved.pk}/").content.decode()
    assert client.post(f"/simulations/{saved.pk}/delete/").status_code == 403
    assert _machine(saved.project, "read").delete(f"/api/v1/simulations/{saved.pk}").status_code == 403
    assert Simulation.objects.count() == 1
    assert _machine(saved.project, "operate").delete(f"/api/v1/simulations/{saved.pk}").status_code == 204
    assert [model.objects.count() for model in (Simulation, SimulatedRun, SimulatedDecision)] == [0, 0, 0]


def test_the_page_deletes_and_leads_back_to_the_list(browser: Client, saved: Simulation) -> None:
    reply = browser.post(f"/simulations/{saved.pk}/delete/", follow=True)
    assert reply.redirect_chain == [("/simulations/", 302)]
    assert f"small (simulated) #{saved.pk} is deleted" in reply.content.decode()
    assert not Simulation.objects.exists()


def _machine(project: Project, *scopes: str) -> Any:
    user = get_user_model().objects.get_or_create(username="ci", is_superuser=True)[0]
    secret, digest = new_secret()
    create_token(
        project=project, user=user, name="ci", scopes=scopes, digest=digest, prefix=secret[:12], expires_at=None
    )
    return Client(headers={"Authorization": f"Bearer {secret}"})


def test_the_api_lists_simulations_gives_one_and_pages_its_decisions(saved: Simulation) -> None:
    machine = _machine(saved.project, "read")
    (row,) = machine.get("/api/v1/simulations").json()["results"]
    assert (row["id"], row["simulated"], row["changes"]) == (saved.pk, True, {"rho_min": 0.5})
    assert row["summary"]["ratio_to_elastic"]["elastic"] == 1.0
    one = machine.get(f"/api/v1/simulations/{saved.pk}").json()
    assert [(run["policy"], run["seed"]) for run in one["results"]] == [
        ("elastic", 1), ("elastic", 2), ("async-best", 1), ("async-best", 2),
    ]  # fmt: skip
    assert one["settings"]["rho_min"] == 0.5
    address, seen, cursor = f"/api/v1/simulations/{saved.pk}/decisions?policy=async-best&limit=50", [], ""
    while cursor is not None:
        page = machine.get(f"{address}&cursor={cursor}").json()
        seen += [item["number"] for item in page["results"]]
        cursor = page["next"]
    assert seen == list(range(saved.runs.get(policy_kind="async-best", seed=1).decisions.count(), 0, -1))
    missing = machine.get(f"/api/v1/simulations/{saved.pk}/decisions?policy=colocate")
    assert missing.status_code == 404
    assert "colocate" in missing.json()["detail"]
    other = _machine(Project.objects.create(slug="other", name="Other"), "read")
    assert other.get("/api/v1/simulations").json()["results"] == []
    assert other.get(f"/api/v1/simulations/{saved.pk}").status_code == 404


def test_a_live_run_is_fitted_replayed_and_saved_beside_it(browser: Client, capsys: Any, tmp_path: Path) -> None:
    run = demo_run(project=demo_project(), shape=SHAPE)
    mine = tmp_path / "mine.toml"
    call_command(
        "simulate", "--fit-from", str(run.pk), "--policy", "elastic", "--seeds", "1", "--set", "steps=4", "--save",
        "--write", mine, "--json",
    )  # fmt: skip
    out, err = capsys.readouterr()
    assert "fitted to" in err
    assert "per step: recorded" in err
    assert "at a mean load of" in err
    row = json.loads(out.splitlines()[0])
    saved = Simulation.objects.get()
    assert (saved.fitted_from, saved.project) == (run, run.project)
    assert saved.num_recorded > 0
    assert f"--fit-from {run.pk}" in saved.command
    assert f'href="/runs/{run.pk}/"' in browser.get(f"/simulations/{saved.pk}/").content.decode()
    call_command("simulate", "--preset", mine, "--policy", "elastic", "--seeds", "1", "--json")
    again = json.loads(capsys.readouterr().out.splitlines()[0])
    assert again["hours"] == pytest.approx(row["hours"], rel=1e-3)  # the file keeps milliseconds


def test_durations_of_a_live_run_are_converted_when_the_effect_of_load_is_given(db: None, capsys: Any) -> None:
    run = demo_run(project=demo_project(), shape=SHAPE)
    options = ("simulate", "--fit-from", str(run.pk), "--policy", "elastic", "--seeds", "1", "--json")
    call_command(*options)
    as_recorded = json.loads(capsys.readouterr().out.splitlines()[0])
    call_command(*options, "--set", "alpha=0.5", "--set", "environment_share=0")
    out, err = capsys.readouterr()
    assert "are converted to full load" in err
    ratio = json.loads(out.splitlines()[0])["execution_h"] / as_recorded["execution_h"]
    assert 0.7 < ratio < 1.4  # the same loads come again in the simulated run, so about the same times


@pytest.mark.parametrize(("run_id", "why"), [(10**9, "does not exist")])
def test_a_run_that_is_not_there_is_refused(db: None, run_id: int, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        call_command("simulate", "--fit-from", str(run_id))
