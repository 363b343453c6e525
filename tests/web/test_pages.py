"""Every page answers, for a run that is full and for one that is empty, and says what to do next."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from agents.models import Call, Execution, Group, Project, Run
from scheduler.models import Cell
from tests.support.demo_run import demo_override, demo_project, demo_run, demo_task_set
from tests.web.conftest import SMALL

RUN_PAGES = ("", "executions/", "groups/", "report/", "cells/", "decisions/", "batches/", "config/")


def _empty_run(project: Project) -> Run:
    from scheduler import config

    settings = config.preset("quickstart").model_dump(mode="json")
    return Run.objects.create(
        project=project, task_set=demo_task_set(), name="fresh", preset="quickstart", config=settings, seed=1,
        policy_kind="elastic",
    )  # fmt: skip


@pytest.mark.parametrize("page", RUN_PAGES)
def test_every_page_of_a_run_answers_and_its_tab_is_lit(browser: Client, run: Run, page: str) -> None:
    reply = browser.get(f"/runs/{run.pk}/{page}")
    assert reply.status_code == 200
    text = reply.content.decode()
    assert run.name in text
    assert f'href="/runs/{run.pk}/{page}" aria-current="page"' in text


@pytest.mark.parametrize(
    ("page", "next_step"),
    [
        ("", "has not decided anything yet"),
        ("executions/", "make status"),
        ("cells/", ".venv/bin/python manage.py doctor"),
        ("decisions/", "No decision here"),
        ("batches/", "refused decisions"),
        ("config/", "Preset"),
    ],
)
def test_an_empty_page_says_what_to_do_next(browser: Client, project: Project, page: str, next_step: str) -> None:
    reply = browser.get(f"/runs/{_empty_run(project).pk}/{page}")
    assert next_step in reply.content.decode()


def test_the_runs_list_without_runs_names_the_command_that_makes_one(browser: Client) -> None:
    assert "make up PRESET=quickstart" in browser.get("/").content.decode()


def test_the_runs_list_filters_by_state_and_text_from_the_query_string(browser: Client, run: Run) -> None:
    other = demo_run(project=run.project, name="other", shape=SMALL)
    Run.objects.filter(pk=other.pk).update(state=Run.State.FINISHED)
    assert _names(browser.get("/?state=finished")) == ["other"]
    assert _names(browser.get("/?q=oth")) == ["other"]
    assert _names(browser.get(f"/?q={run.pk}&state=live")) == [run.name]
    assert _names(browser.get("/?sort=oldest")) == [run.name, "other"]
    assert "No run matches" in browser.get("/?q=nothing").content.decode()


def _names(reply: Any) -> list[str]:
    return [row.run.name for row in reply.context["rows"]]


def test_the_overview_says_the_seven_facts(browser: Client, run: Run) -> None:
    facts = browser.get(f"/runs/{run.pk}/").context["facts"]
    assert (run.version, facts.steps) == (2, 20)
    assert run.waterlevel == Execution.objects.filter(run=run, state=Execution.State.RUNNING).count()
    assert facts.room == Cell.objects.filter(run=run, role="rollout").count() * 6
    assert facts.staleness.mean == pytest.approx(0.5, abs=0.2)
    assert facts.outcomes.false_forks == 0
    assert facts.outcomes.finished == run.finished


def test_the_overview_tells_cancelled_executions_from_finished_ones(browser: Client, run: Run) -> None:
    ended = run.finished
    assert f"{run.dispatched} dispatched · {ended} finished</div>" in browser.get(f"/runs/{run.pk}/").content.decode()
    for row in Execution.objects.filter(run=run, state=Execution.State.RUNNING, launched_at__isnull=False)[:2]:
        browser.post(f"/executions/{row.pk}/cancel/", {"reason": "stuck"})
    run.refresh_from_db()
    assert run.finished == ended + 2
    text = browser.get(f"/runs/{run.pk}/").content.decode()
    assert f"{run.dispatched} dispatched · {ended} finished, 2 cancelled" in text


def test_alarms_stand_first_and_the_worst_on_top(browser: Client, run: Run) -> None:
    demo_override(run)
    Execution.objects.filter(run=run).update(num_false_forks=1)
    Cell.objects.filter(run=run, index=1).update(role="lost", error="out of memory")
    reply = browser.get(f"/runs/{run.pk}/")
    tones = [alarm.tone for alarm in reply.context["alarms"]]
    assert tones == sorted(tones, key=["bad", "warn", "note"].index)
    text = reply.content.decode()
    assert "out of memory" in text
    assert (
        text.index("false forks")
        < text.index("Override: cell 1 is pinned to rollout")
        < text.index("Waterlevel and cells")
    )


def test_pages_carry_no_inline_script_or_style_and_a_strict_policy(browser: Client, run: Run) -> None:
    execution = Call.objects.filter(execution__run=run).first().execution_id
    paths = ["/", "/runs/new/", "/api/docs/", f"/executions/{execution}/", f"/executions/{execution}/?view=tokens"]
    for path in [*paths, *(f"/runs/{run.pk}/{page}" for page in RUN_PAGES)]:
        reply = browser.get(path)
        text = reply.content.decode()
        assert not re.search(r"\sstyle\s*=", text), path
        assert "<style" not in text, path
        assert not re.search(r"\son[a-z]+\s*=", text), path
        scripts = re.findall(r"<script([^>]*)>", text)
        assert all("src=" in s or "application/json" in s for s in scripts), path
        policy = reply.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert reply.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("page", ["/", "/runs/new/", "/runs/1/", "/executions/1/", "/api/docs/"])
def test_strangers_are_sent_to_the_login(db: None, page: str) -> None:
    reply = Client().get(page)
    assert reply.status_code == 302
    assert reply.headers["Location"].startswith("/login/?next=")


def test_what_lies_in_another_project_is_not_found(member: Any, run: Run) -> None:
    stranger = member("change_run", name="stranger", of=demo_project("elsewhere"))
    execution = Execution.objects.filter(run=run).first().pk
    assert _names(stranger.get("/")) == []
    for path in [*(f"/runs/{run.pk}/{page}" for page in RUN_PAGES), f"/executions/{execution}/"]:
        assert stranger.get(path).status_code == 404, path
    assert stranger.post(f"/runs/{run.pk}/stop/", {"reason": "mine"}).status_code == 404


def test_a_member_without_permissions_reads_and_cannot_act(member: Any, run: Run) -> None:
    reader = member()
    text = reader.get(f"/runs/{run.pk}/").content.decode()
    assert "Stop…" not in text
    assert reader.post(f"/runs/{run.pk}/stop/", {"reason": "no"}).status_code == 403
    assert reader.get("/runs/new/").status_code == 403
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING


def test_an_operator_pauses_with_a_reason_and_not_without(member: Any, run: Run) -> None:
    operator = member("change_run")
    reply = operator.post(f"/runs/{run.pk}/pause/", {"reason": " "}, follow=True)
    assert "say why" in reply.content.decode()
    operator.post(f"/runs/{run.pk}/pause/", {"reason": "disk is filling"})
    run.refresh_from_db()
    assert (run.state, run.state_reason) == (Run.State.PAUSED, "disk is filling")
    assert "disk is filling" in operator.get(f"/runs/{run.pk}/").content.decode()


def test_acts_need_a_post_and_a_csrf_token(browser: Client, run: Run) -> None:
    assert browser.get(f"/runs/{run.pk}/pause/").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = browser.cookies
    assert strict.post(f"/runs/{run.pk}/pause/", {"reason": "x"}).status_code == 403


def test_the_theme_is_kept_in_a_cookie_and_never_leads_elsewhere(browser: Client) -> None:
    reply = browser.post("/theme/", {"theme": "dark", "next": "https://evil.example/"})
    assert reply.headers["Location"] == "/"
    assert '<html lang="en" data-theme="dark">' in browser.get("/").content.decode()
    browser.post("/theme/", {"theme": '"><script>', "next": "/"})
    assert 'data-theme="dark"' in browser.get("/").content.decode()


def test_decisions_are_sentences_refusals_too_and_show_their_inputs(browser: Client, run: Run) -> None:
    text = browser.get(f"/runs/{run.pk}/decisions/").content.decode()
    assert "the core leaves rollout" in text
    refused = browser.get(f"/runs/{run.pk}/decisions/?accepted=no")
    assert refused.context["decisions"]
    assert all(not row.accepted for row in refused.context["decisions"])
    number = refused.context["decisions"][0].number
    inputs = browser.get(f"/runs/{run.pk}/decisions/{number}.json").json()
    assert inputs["snapshot"] == {"waterlevel": 0}


def test_the_config_page_marks_what_differs_from_the_preset(browser: Client, run: Run) -> None:
    sections = browser.get(f"/runs/{run.pk}/config/").context["sections"]
    changed = {row["name"] for _, rows in sections for row in rows if row["changed"]}
    assert changed == {"cells", "concurrency_per_cell", "groups_per_batch", "executions_per_group"}


def test_the_sparkline_uses_its_whole_height_and_stands_beside_its_numbers(browser: Client, run: Run) -> None:
    text = browser.get("/").content.decode()
    points = re.search(r'<polyline points="([^"]+)"', text)
    assert points
    heights = [float(point.split(",")[1]) for point in points[1].split()]
    assert (min(heights), max(heights)) == (2.0, 26.0)
    assert re.search(r"\d\.\d\d → \d\.\d\d", text)


def test_several_groups_with_equal_rewards_lead_to_their_batch_and_one_to_itself(browser: Client, run: Run) -> None:
    groups = list(Group.objects.filter(run=run, kind="training", batch__isnull=False).order_by("-batch", "number"))
    batch = groups[0].batch
    Group.objects.filter(run=run, batch=batch).update(reward_std=0.3)
    Group.objects.filter(pk=groups[0].pk).update(reward_std=0.0)
    one = browser.get(f"/runs/{run.pk}/").content.decode()
    assert f'<a href="/runs/{run.pk}/groups/training/{groups[0].number}/">Show it</a>' in one
    Group.objects.filter(run=run, batch=batch).update(reward_std=0.0)
    assert f'<a href="/runs/{run.pk}/executions/?batch={batch}">Show the batch</a>' in (
        browser.get(f"/runs/{run.pk}/").content.decode()
    )
