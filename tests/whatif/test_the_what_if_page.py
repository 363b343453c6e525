"""The what-if page: who may do what, validation in place, progress, answers, apply, and what it says when it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from agents.models import Project, Run
from scheduler.models import Override, WhatIf, WhatIfPoint
from scheduler.simulator.whatif import work
from scheduler.simulator.whatif.reading import present
from tests.support.demo_run import Shape, demo_run

Asked = Callable[..., WhatIf]


@pytest.fixture
def operator(project: Project) -> Client:
    return member(project, "operator", "view_run", "change_run")


@pytest.fixture
def reader(project: Project) -> Client:
    return member(project, "reader", "view_run")


def member(project: Project, name: str, *permissions: str) -> Client:
    user = get_user_model().objects.create_user(name)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="agents"))
    project.members.add(user)
    client = Client()
    client.force_login(user)
    return client


def form(run: Run, **values: Any) -> dict[str, Any]:
    usual = {
        "span": "rest", "hours": "6", "seeds": "3", "cells": "3", "cell_size": "1", "concurrency_per_cell": "6",
        "rho_min": "1", "burst_batches": "2", "burst_lead": "0", "max_staleness": "1", "j_max": "5",
        "training_cells": "0", "policy_kind": ["elastic"],
    }  # fmt: skip
    return usual | values


def text_of(reply: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", reply.content.decode()))


def test_the_form_begins_with_the_present_values_and_names_what_is_fixed(operator: Client, run: Run) -> None:
    page = operator.get(f"/runs/{run.pk}/what-if/").content.decode()
    for name, value in (("cells", "3"), ("concurrency_per_cell", "6"), ("rho_min", "1"), ("j_max", "5")):
        assert f'name="{name}" value="{value}"' in page
    assert 'value="elastic" checked' in page
    assert page.count("fixed while the run goes on") == 4
    assert "Nothing asked yet" in page


def test_asking_leads_to_the_answer_which_is_polled_until_it_is_there(operator: Client, run: Run) -> None:
    reply = operator.post(f"/runs/{run.pk}/what-if/", form(run, rho_min="0.4, 0.7"))
    row = WhatIf.objects.get()
    assert (reply.status_code, reply.headers["Location"]) == (302, f"/runs/{run.pk}/what-if/?ask={row.pk}")
    page = operator.get(reply.headers["Location"])
    assert "0 of 9 simulated runs" in text_of(page)
    assert 'hx-trigger="every 1s"' in page.content.decode()
    assert "Cancel" in text_of(page)
    work.work_on(row.pk)
    result = operator.get(f"/runs/{run.pk}/what-if/{row.pk}/result/")
    assert "hx-trigger" not in result.content.decode()
    assert "rho_min = 0.4" in text_of(result)
    assert "What this rests on" in text_of(result)
    assert result.content.decode().count('class="whisker') == 3
    assert f"what-if-chart-{row.pk}" in result.content.decode()


def test_a_whole_run_is_measured_against_what_it_took_on_the_same_page(
    operator: Client, run: Run, asked: Asked
) -> None:
    row = asked(span="whole", rho_min="0.4")
    work.work_on(row.pk)
    result = operator.get(f"/runs/{run.pk}/what-if/{row.pk}/result/")
    assert "Time per step as answered above, groups drawn anew" in text_of(result)
    assert "from the start of the run to its end, the last evaluation included" in text_of(result)
    assert "the time up to the last step that was recorded" in text_of(result)
    rest = asked(rho_min="0.4")
    work.work_on(rest.pk)
    other = text_of(operator.get(f"/runs/{run.pk}/what-if/{rest.pk}/result/"))
    assert "as answered above" not in other
    assert "Time per step, groups replayed in their order" in other


def test_a_mistake_is_told_at_its_field_and_nothing_starts(operator: Client, run: Run) -> None:
    checked = operator.post(f"/runs/{run.pk}/what-if/check/", form(run, rho_min="0.2, x", hours="", span="hours"))
    assert checked.status_code == 200
    assert "&#x27;x&#x27; is no number" in checked.content.decode()
    assert 'id="p_hours"' in checked.content.decode()
    sent = operator.post(f"/runs/{run.pk}/what-if/", form(run, cells="1"))
    assert sent.status_code == 422
    assert "K = 1: " in text_of(sent)
    assert "Nothing was started" in text_of(sent)
    assert not WhatIf.objects.exists()


def test_the_plan_counts_simulated_runs(operator: Client, run: Run) -> None:
    checked = operator.post(f"/runs/{run.pk}/what-if/check/", form(run, rho_min="0.4, 0.7", cells="3, 4"))
    assert "5 settings, the present ones included, × 3 seeds = 15 simulated runs." in text_of(checked)


def test_a_reader_sees_answers_and_can_neither_ask_nor_cancel_nor_apply(reader: Client, run: Run, asked: Asked) -> None:
    row = asked(rho_min="0.4")
    base = f"/runs/{run.pk}/what-if/"
    page = reader.get(f"{base}?ask={row.pk}")
    assert page.status_code == 200
    assert "Your role can look at what others asked" in text_of(page)
    assert "<button" not in page.content.decode().split('id="result-place"')[1].split("Ask the same by API")[0]
    assert reader.post(base, form(run, rho_min="0.5")).status_code == 403
    assert reader.post(f"{base}{row.pk}/cancel/").status_code == 403
    assert reader.post(f"{base}{row.pk}/resume/").status_code == 403
    assert reader.post(f"{base}{row.pk}/points/1/apply/", {"reason": "x", "expires_in_s": "3600"}).status_code == 403
    row.refresh_from_db()
    assert (row.state, WhatIf.objects.count(), Override.objects.count()) == ("queued", 1, 0)


def test_strangers_do_not_see_that_it_exists(run: Run, asked: Asked) -> None:
    row = asked(rho_min="0.4")
    stranger = member(Project.objects.create(slug="other", name="Other"), "stranger", "view_run", "change_run")
    for path in ("", f"{row.pk}/result/", f"{row.pk}/points/1/preview/"):
        assert stranger.get(f"/runs/{run.pk}/what-if/{path}").status_code == 404


def test_the_preview_says_what_would_be_decided_otherwise(operator: Client, run: Run, asked: Asked) -> None:
    row = asked(concurrency_per_cell="40")
    found = text_of(operator.get(f"/runs/{run.pk}/what-if/{row.pk}/points/1/preview/"))
    assert "If it were in force at this moment" in found
    assert "× 40" in found
    assert "no longer" in found
    refused = text_of(operator.get(f"/runs/{run.pk}/what-if/{row.pk}/points/0/preview/"))
    assert "there is nothing to apply" in refused


def test_applying_needs_a_reason_and_a_duration_and_shows_in_the_form_afterwards(
    operator: Client, run: Run, asked: Asked
) -> None:
    row = asked(rho_min="0.3")
    url = f"/runs/{run.pk}/what-if/{row.pk}/points/1/apply/"
    page = operator.post(url, {"reason": " ", "expires_in_s": "3600"}, follow=True)
    assert "Nothing was applied: " in text_of(page)
    page = operator.post(url, {"reason": "why", "expires_in_s": "1"}, follow=True)
    assert "say how long it holds" in text_of(page)
    page = operator.post(url, {"reason": "what-if", "expires_in_s": "3600"}, follow=True)
    assert "rho_min = 0.3." in text_of(page)
    override = Override.objects.get()
    assert (override.value, override.reason) == ({"name": "rho_min", "value": 0.3}, "what-if")
    assert timedelta(minutes=59) < override.expires_at - timezone.now() <= timedelta(hours=1)
    assert 'class="n now num">0.3<' in page.content.decode()


def test_points_that_cannot_be_changed_live_say_why_instead_of_a_button(
    operator: Client, run: Run, asked: Asked
) -> None:
    row = asked(policy_kind="colocate", span="whole")
    work.work_on(row.pk)
    page = operator.get(f"/runs/{run.pk}/what-if/?ask={row.pk}")
    assert "the policy is fixed at launch" in text_of(page)
    assert "Apply…" not in text_of(page)


def test_too_little_recorded_says_how_much_is_needed(operator: Client, project: Project) -> None:
    young = demo_run(project=project, shape=Shape(bursts=1, stop_at=0.02))
    found = text_of(operator.get(f"/runs/{young.pk}/what-if/"))
    assert present(young).lacking in found
    assert "Simulate" not in found


def test_a_point_that_gets_stuck_is_told_in_its_row_and_in_the_recommendation(
    operator: Client, run: Run, asked: Asked
) -> None:
    row = asked(rho_min="0.4, 0.7")
    work.work_on(row.pk)
    WhatIfPoint.objects.filter(what_if=row, number=1).update(results=[{"seed": 1, "error": "nothing is due at 1.00 h"}])
    found = text_of(operator.get(f"/runs/{run.pk}/what-if/?ask={row.pk}"))
    assert "gets stuck: nothing is due at 1.00 h" in found
    assert "With rho_min = 0.4 the run gets stuck and does not end" in found


def test_late_and_dead_workers_are_told_and_interrupted_ones_can_go_on(
    operator: Client, run: Run, asked: Asked
) -> None:
    row = asked(rho_min="0.4")
    url = f"/runs/{run.pk}/what-if/?ask={row.pk}"
    WhatIf.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(seconds=60))
    assert "No worker has taken it up yet" in text_of(operator.get(url))
    ago = timezone.now() - timedelta(seconds=30)
    WhatIf.objects.filter(pk=row.pk).update(state="running", lease_expires_at=ago, lease_owner="gone", num_workers=3)
    assert "Its worker is silent since" in text_of(operator.get(url))
    assert not work.work_on(row.pk)
    page = text_of(operator.get(url))
    assert "3 workers in turn died over it" in page
    assert "Go on" in page
    operator.post(f"/runs/{run.pk}/what-if/{row.pk}/resume/")
    assert work.work_on(row.pk)
    assert "finished" in text_of(operator.get(url))


def test_what_was_asked_before_is_listed_and_fills_the_form(operator: Client, run: Run, asked: Asked) -> None:
    first, second = asked(rho_min="0.4"), asked(j_max="1, 2", cells="4")
    page = operator.get(f"/runs/{run.pk}/what-if/?ask={first.pk}").content.decode()
    listed = page.split("Asked before")[1]
    assert listed.index(f"?ask={second.pk}") < listed.index(f"?ask={first.pk}")
    assert 'name="rho_min" value="0.4"' in page
    assert "K = 4; J_max = 1, 2" in page
    assert operator.get(f"/runs/{run.pk}/what-if/?ask=999999").status_code == 404


def test_an_apostrophe_in_what_a_user_is_called_stays_text(project: Project, run: Run, asked: Asked) -> None:
    row = asked(rho_min="0.4")
    WhatIf.objects.filter(pk=row.pk).update(error="<script>alert(1)</script>", state="failed")
    page = member(project, "o'hara", "view_run").get(f"/runs/{run.pk}/what-if/?ask={row.pk}").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
