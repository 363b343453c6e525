"""The launch form: made from the schema, checked in place, and it starts nothing that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from agents.models import Run, Task
from gyreweb.pages import launch_form
from scheduler import config
from tests.proxy import policies


def _posted(preset: str = "quickstart", **changes: str) -> dict[str, str]:
    """What a browser posts for the form of a preset."""
    values = {name: launch_form.as_text(value) for name, value in launch_form.usual_values(preset).items()}
    flags = {name for name, info in config.RunConfig.model_fields.items() if info.annotation is bool}
    sent = {name: value for name, value in values.items() if name not in flags or value == "true"}
    return {"preset": preset, "name": "", **sent, **changes}


def test_every_setting_of_the_schema_has_one_field() -> None:
    values = launch_form.usual_values("quickstart")
    names = [field.name for _, fields in launch_form.sections(values, values, {}) for field in fields]
    assert sorted(names) == sorted(config.RunConfig.model_fields)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("preset", ["", *config.preset_names()])
def test_a_form_that_nobody_touched_posts_exactly_the_preset(preset: str) -> None:
    usual = launch_form.usual_values(preset)
    assert launch_form.changes_to(usual, launch_form.typed(_posted(preset))) == {}
    assert config.parse(launch_form.typed(_posted(preset))).model_dump(mode="json") == usual


def test_a_wrong_value_is_named_beside_its_field_with_what_is_allowed(browser: Client) -> None:
    reply = browser.post(
        "/runs/new/check/", _posted(cells="999", loss="magic", rho_min="x"), headers={"HX-Request": "true"}
    )
    text = reply.content.decode()
    problems = {f.name: f.problem for _, fields in reply.context["sections"] for f in fields if f.problem}
    assert set(problems) == {"cells", "loss", "rho_min"}
    assert "64" in problems["cells"]
    assert "ppo_clip" in problems["loss"]
    assert 'aria-invalid="true" aria-describedby="p_cells"' in text
    assert 'value="x"' in text


def test_settings_that_do_not_fit_together_are_explained(browser: Client) -> None:
    reply = browser.post("/runs/new/check/", _posted(concurrency_per_cell="1"), headers={"HX-Request": "true"})
    assert "concurrency_per_cell hold 2" in reply.content.decode()


def test_a_bad_launch_starts_nothing_and_keeps_what_was_typed(browser: Client) -> None:
    reply = browser.post("/runs/new/", _posted(steps="0", name="mine"))
    assert reply.status_code == 422
    text = reply.content.decode()
    assert "Nothing was started" in text
    assert 'value="mine"' in text
    assert Run.objects.count() == 0


def test_a_missing_task_set_is_refused_at_its_field(browser: Client) -> None:
    reply = browser.post("/runs/new/", _posted(task_set="/nowhere/tasks"))
    assert reply.status_code == 422
    problems = {f.name: f.problem for _, fields in reply.context["sections"] for f in fields if f.problem}
    assert set(problems) == {"task_set"}
    assert Run.objects.count() == 0


def test_a_harness_that_the_policy_cannot_understand_is_refused_at_its_field(browser: Client, tmp_path: Path) -> None:
    reply = browser.post("/runs/new/", _posted(policy_path=str(policies.write_unfit(tmp_path))))
    assert reply.status_code == 422
    problems = {f.name: f.problem for _, fields in reply.context["sections"] for f in fields if f.problem}
    assert problems["harness"].endswith("only three messages fit")
    assert Run.objects.count() == 0


def test_a_good_launch_makes_the_run_with_only_its_changes_and_opens_its_page(browser: Client) -> None:
    reply = browser.post("/runs/new/", _posted(steps="3", name="short one"))
    run = Run.objects.get()
    assert reply.headers["Location"] == f"/runs/{run.pk}/"
    assert (run.name, run.preset, run.config["steps"], run.created_by.username) == (
        "short one",
        "quickstart",
        3,
        "root",
    )
    assert run.config == config.preset("quickstart", steps=3).model_dump(mode="json")
    assert Task.objects.filter(task_set=run.task_set).exists()


def test_choosing_a_preset_shows_its_values(browser: Client) -> None:
    reply = browser.get("/runs/new/preset/?preset=mini-swe", headers={"HX-Request": "true"})
    values = {f.name: f.value for _, fields in reply.context["sections"] for f in fields}
    assert values["harness"] == "mini-swe-agent"
    assert "<html" not in reply.content.decode()


def test_an_unknown_preset_is_refused_with_the_known_ones(browser: Client) -> None:
    text = browser.get("/runs/new/?preset=nope").content.decode()
    assert "known presets" in text
    assert "quickstart-shuffled" in text


def test_the_plan_says_in_numbers_what_the_run_will_do() -> None:
    values: dict[str, Any] = launch_form.usual_values("quickstart")
    assert "20 steps of 8 groups × 8 executions: 1,280 executions" in launch_form.plan_sentence(values)
    assert launch_form.plan_sentence(values | {"cells": 0}) == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "evaluated 6 times on 64 held-out tasks"),
        ({"steps": 2}, "evaluated 2 times on 64"),
        ({"steps": 6}, "evaluated 3 times on 64"),
        ({"steps": 4, "eval_tasks": 1}, "evaluated 2 times on 1 held-out task."),
        ({"steps": 3, "eval_every_steps": 1}, "evaluated 4 times"),
        ({"eval_every_steps": 0}, "No evaluation."),
        ({"eval_tasks": 0}, "No evaluation."),
    ],
)
def test_the_plan_counts_the_evaluations_of_the_first_each_nth_and_the_last_version(
    changes: dict[str, int], said: str
) -> None:
    assert said in launch_form.plan_sentence(launch_form.usual_values("quickstart") | changes)


def test_every_field_of_the_form_says_what_it_means_and_allows(browser: Client) -> None:
    reply = browser.get("/runs/new/")
    fields = [field for _, rows in reply.context["sections"] for field in rows]
    assert [field.name for field in fields if not field.help] == []
    assert f"{config.allowed('cells').capitalize()}." in reply.content.decode()
