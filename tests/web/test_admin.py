"""The admin: every model is there, lists load no tokens, and writes go through actions."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.admin import is_heavy
from agents.models import ApiToken, Project, Run
from gyreweb.api.auth import new_secret
from scheduler.models import Override
from tests.support.demo_run import demo_override

MODELS = [model for label in ("agents", "scheduler", "trainers") for model in apps.get_app_config(label).get_models()]


def _heavy(model: Any) -> list[str]:
    return [f'"{f.column}"' for f in model._meta.concrete_fields if is_heavy(f)]


def test_every_model_is_registered() -> None:
    assert [model.__name__ for model in MODELS if not admin.site.is_registered(model)] == []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_list_and_row_answer_and_load_no_heavy_column(browser: Client, run: Run, model: Any) -> None:
    demo_override(run)
    base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    row = model._base_manager.order_by("pk").values_list("pk", flat=True).first()
    with CaptureQueriesContext(connection) as captured:
        assert browser.get(base).status_code == 200
        if row is not None:
            assert browser.get(f"{base}{row}/change/").status_code == 200
    table = f'"{model._meta.db_table}".'
    loaded = [
        q["sql"] for q in captured.captured_queries if any(table + column in q["sql"] for column in _heavy(model))
    ]
    assert loaded == []


def test_every_model_has_a_plural_that_is_english() -> None:
    plurals = {str(model._meta.verbose_name_plural) for model in MODELS}
    assert {"API tokens", "trajectories", "request bodies", "batches", "hand-ins"} <= plurals
    assert {name for name in plurals if name.endswith(("ys", "chs"))} == set()


def test_pages_without_an_icon_of_their_own_get_ours(browser: Client) -> None:
    reply = browser.get("/favicon.ico")
    assert (reply.status_code, reply.headers["Location"]) == (302, "/static/img/gyre.svg")


@pytest.mark.parametrize("model", [m for m in MODELS if m is not Project], ids=lambda model: model.__name__)
def test_rows_are_for_reading(browser: Client, model: Any) -> None:
    base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
    assert browser.get(f"{base}add/").status_code == 403


def test_a_token_is_revoked_and_its_digest_never_shown(browser: Client, project: Project) -> None:
    user = browser.session["_auth_user_id"]
    secret, digest = new_secret()
    row = ApiToken.objects.create(
        project=project, name="ci", digest=digest, prefix=secret[:12], scopes=["read"], created_by_id=user
    )
    text = browser.get(f"/admin/agents/apitoken/{row.pk}/change/").content.decode()
    assert secret[:12] in text
    assert digest.hex() not in text
    browser.post("/admin/agents/apitoken/", {"action": "revoke", "_selected_action": [row.pk]})
    row.refresh_from_db()
    assert row.revoked_at is not None


def test_an_override_is_released_by_the_same_action_as_everywhere(browser: Client, run: Run) -> None:
    row = demo_override(run)
    for _ in range(2):
        browser.post("/admin/scheduler/override/", {"action": "release", "_selected_action": [row.pk]})
    assert Override.objects.get().released_at is not None
    assert list(run.events.filter(kind="override_released").values_list("payload__by", flat=True)) == ["root"]


def test_rows_that_point_at_others_name_them(browser: Client, run: Run) -> None:
    for path in ("agents/execution", "agents/call", "trainers/microstep"):
        shown = browser.get(f"/admin/{path}/").content.decode()
        assert "result_list" in shown, path
        assert " object (" not in shown, path


@pytest.mark.parametrize(("cookie", "dressed"), [("dark", True), ("light", True), ("<x", False)])
def test_the_admin_wears_the_dashboards_name_and_theme(browser: Client, cookie: str, dressed: bool) -> None:
    browser.cookies["theme"] = cookie
    shown = browser.get("/admin/").content.decode()
    assert "Gyre admin" in shown
    assert "Django administration" not in shown
    assert "css/admin" in shown
    assert (f"theme-{cookie}" in shown) is dressed
