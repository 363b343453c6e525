"""Who may call the API: tokens are hashed, scoped and end; projects are walls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from agents.actions.api_tokens import revoke_tokens
from agents.models import ApiToken, Execution, Project, Run
from gyreweb.api.auth import digest_of
from tests.support.demo_run import demo_project

Machine = Callable[..., Any]


def test_the_secret_is_stored_only_as_a_hash(machine: Machine) -> None:
    client = machine("read")
    row = ApiToken.objects.get()
    stored = [str(getattr(row, field.name)) for field in row._meta.concrete_fields]
    assert not any(client.secret in value for value in stored)
    assert bytes(row.digest) == digest_of(client.secret)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer gyre_unknown", "Bearer a b", "Basic eDp5", "Bearer \u00e9"])
def test_without_a_good_token_the_answer_is_401_with_a_challenge(db: None, header: str) -> None:
    reply = Client(headers={"Authorization": header} if header else {}).get("/api/v1/runs")
    assert reply.status_code == 401
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert reply.headers["Content-Type"] == "application/problem+json"


def test_an_expired_or_revoked_token_and_one_whose_maker_left_are_refused(machine: Machine) -> None:
    expired = machine("read", expires_at=timezone.now() - timedelta(seconds=1))
    revoked = machine("read")
    assert revoked.get("/api/v1/runs").status_code == 200
    revoke_tokens([revoked.token.pk])
    assert [client.get("/api/v1/runs").status_code for client in (expired, revoked)] == [401, 401]
    orphan = machine("read")
    get_user_model().objects.update(is_active=False)
    assert orphan.get("/api/v1/runs").status_code == 401


def test_each_act_needs_its_scope(machine: Machine, run: Run) -> None:
    execution = Execution.objects.filter(run=run).first().pk
    acts = [
        ("post", "/api/v1/runs", "launch"),
        ("post", f"/api/v1/runs/{run.pk}/stop", "operate"),
        ("post", f"/api/v1/runs/{run.pk}/pause", "operate"),
        ("post", f"/api/v1/runs/{run.pk}/resume", "operate"),
        ("post", f"/api/v1/runs/{run.pk}/overrides", "operate"),
        ("patch", f"/api/v1/cells/{run.pk}-0", "operate"),
        ("post", f"/api/v1/executions/{execution}/cancel", "operate"),
    ]
    for scope, others in (("launch", ("read", "operate")), ("operate", ("read", "launch"))):
        client = machine(*others)
        for method, path, needed in acts:
            if needed != scope:
                continue
            reply = getattr(client, method)(path, {}, content_type="application/json")
            assert reply.status_code == 403, path
            assert f"`{scope}`" in reply.json()["detail"]
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING


def test_the_admin_scope_covers_the_others(machine: Machine, run: Run) -> None:
    client = machine("admin")
    assert client.get("/api/v1/runs").status_code == 200
    reply = client.post(f"/api/v1/runs/{run.pk}/pause", {"reason": "x"}, content_type="application/json")
    assert reply.json()["state"] == "paused"


def test_another_projects_rows_do_not_exist(machine: Machine, run: Run) -> None:
    stranger = machine("admin", of=demo_project("elsewhere"))
    execution = Execution.objects.filter(run=run).first().pk
    base = f"/api/v1/runs/{run.pk}"
    reads = [
        base,
        *(f"{base}/{name}" for name in ("events", "metrics", "executions", "decisions", "batches", "overrides")),
    ]
    reads += [f"/api/v1/executions/{execution}", f"/api/v1/executions/{execution}/tree", f"/api/v1/cells/{run.pk}-0"]
    reads += [f"/api/v1/cells?run={run.pk}"]
    for path in reads:
        reply = stranger.get(path)
        assert reply.status_code == 404, path
        missing = stranger.get(path.replace(str(run.pk), "999999").replace(str(execution), "999999"))
        assert reply.json().keys() == missing.json().keys()
    for path in (f"{base}/stop", f"{base}/overrides", f"/api/v1/executions/{execution}/cancel"):
        assert stranger.post(path, {"reason": "x"}, content_type="application/json").status_code == 404, path
    assert stranger.get("/api/v1/runs").json()["results"] == []
    assert stranger.get("/api/v1/cells").json()["results"] == []


def test_a_session_needs_a_csrf_token_to_act_and_a_bearer_token_does_not(machine: Machine, run: Run) -> None:
    user = get_user_model().objects.create_superuser("root")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    assert browser.get("/api/v1/runs").status_code == 200
    path = f"/api/v1/runs/{run.pk}/pause"
    assert browser.post(path, {"reason": "x"}, content_type="application/json").status_code == 403
    assert machine("operate").post(path, {"reason": "x"}, content_type="application/json").status_code == 200


def test_the_command_makes_a_token_that_works_and_says_the_secret_once(project: Project) -> None:
    get_user_model().objects.create_superuser("root")
    out, notes = StringIO(), StringIO()
    call_command("create_token", "ci", "--scopes", "read,launch", stdout=out, stderr=notes)
    secret = out.getvalue().strip()
    assert secret.startswith("gyre_")
    assert secret not in notes.getvalue()
    assert Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/runs").status_code == 200
    assert ApiToken.objects.get().scopes == ["launch", "read"]
    with pytest.raises(CommandError, match="allowed: read, launch, operate, admin"):
        call_command("create_token", "ci", "--scopes", "everything")
    with pytest.raises(CommandError, match="'nope' does not exist"):
        call_command("create_token", "ci", "--project", "nope")
