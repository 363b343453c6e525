"""Nobody and no token reaches further than the person behind it does now: not by launching, not after leaving."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.test import Client

from agents.actions.api_tokens import create_token
from agents.actions.errors import Refused
from agents.actions.launch_run import launch_run
from agents.admin import path_to_project
from agents.models import Execution, Project, Run
from gyreweb.api.auth import new_secret
from tests.support.demo_run import Shape, demo_override, demo_project, demo_run

pytestmark = pytest.mark.django_db

ACTING = ("add_run", "change_run")


@pytest.fixture
def project() -> Project:
    return demo_project("lab")


@pytest.fixture
def run(project: Project) -> Run:
    found = demo_run(project=project, shape=Shape(groups_per_batch=1, executions_per_group=2, bursts=1, cells=2,
                                                  concurrency=4))  # fmt: skip
    demo_override(found)
    return found


@pytest.fixture
def person() -> Callable[..., Any]:
    def make(name: str, *permissions: str, of: Project | None = None, **facts: Any) -> Any:
        user = get_user_model().objects.create_user(name, **facts)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        if of is not None:
            of.members.add(user)
        return user

    return make


def machine(user: Any, project: Project, *scopes: str) -> Client:
    secret, digest = new_secret()
    create_token(
        project=project, user=user, name="ci", scopes=scopes, digest=digest, prefix=secret[:12], expires_at=None
    )
    return Client(headers={"Authorization": f"Bearer {secret}"})


def browser(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_person_without_a_project_launches_nothing_anywhere(person: Any) -> None:
    homeless = browser(person("homeless", *ACTING))
    reply = homeless.post("/api/v1/runs", {"preset": "quickstart"}, content_type="application/json")
    assert (reply.status_code, "You are in no project" in reply.json()["detail"]) == (403, True)
    assert homeless.get("/runs/new/").status_code == 403
    assert homeless.post("/runs/new/", {"preset": "quickstart"}).status_code == 403
    named = homeless.post(
        "/api/v1/runs", {"preset": "quickstart", "project": "default"}, content_type="application/json"
    )
    assert named.status_code == 422
    assert not Run.objects.exists()
    assert not Project.objects.filter(slug="default").exists()


def test_the_action_itself_refuses_a_project_that_is_not_ones_own(person: Any, project: Project) -> None:
    user = person("member", *ACTING, of=demo_project("elsewhere"))
    with pytest.raises(Refused, match="member is not a member of project lab"):
        launch_run(project=project, user=user, preset="quickstart")
    assert not Run.objects.exists()


def leave(user: Any, project: Project) -> None:
    project.members.remove(user)


def deactivate(user: Any, project: Project) -> None:
    user.is_active = False
    user.save()


def delete(user: Any, project: Project) -> None:
    user.delete()


def delete_project(user: Any, project: Project) -> None:
    Run.objects.all().delete()
    project.delete()


@pytest.mark.parametrize("end", [leave, deactivate, delete, delete_project])
def test_a_token_ends_with_its_makers_membership(person: Any, project: Project, run: Run, end: Any) -> None:
    user = person("ann", *ACTING, of=project)
    client = machine(user, project, "read", "launch", "operate")
    assert client.get(f"/api/v1/runs/{run.pk}").status_code == 200
    end(user, project)
    for method, path in (("get", "/api/v1/runs"), ("get", f"/api/v1/runs/{run.pk}"), ("post", "/api/v1/runs")):
        assert getattr(client, method)(path).status_code == 401, path


def test_a_token_loses_the_scopes_that_its_maker_loses_and_has_them_again_with_them(
    person: Any, project: Project, run: Run
) -> None:
    user = person("ann", *ACTING, of=project)
    client = machine(user, project, "read", "launch", "operate")
    pause = f"/api/v1/runs/{run.pk}/pause"
    user.user_permissions.clear()
    assert client.get(f"/api/v1/runs/{run.pk}").status_code == 200
    for path in (pause, "/api/v1/runs", f"/api/v1/runs/{run.pk}/overrides"):
        assert client.post(path, {"reason": "x"}, content_type="application/json").status_code == 403, path
    user.user_permissions.set(Permission.objects.filter(codename="change_run"))
    assert client.post(pause, {"reason": "x"}, content_type="application/json").status_code == 200


def test_an_admin_token_of_a_superuser_who_was_demoted_only_reads(person: Any, project: Project, run: Run) -> None:
    root = person("root", is_superuser=True)
    client = machine(root, project, "admin")
    root.is_superuser = False
    root.save()
    assert client.get("/api/v1/runs").status_code == 401
    project.members.add(root)
    assert client.get(f"/api/v1/runs/{run.pk}").status_code == 200
    pause = client.post(f"/api/v1/runs/{run.pk}/pause", {"reason": "x"}, content_type="application/json")
    assert pause.status_code == 403


def test_a_token_is_not_made_for_more_than_its_maker_may_do(person: Any, project: Project) -> None:
    person("reader", of=project)
    person("stranger")
    for arguments, why in (
        (("--user", "reader", "--scopes", "read,operate"), "reader may not operate"),
        (("--user", "reader", "--scopes", "admin"), "reader may not admin"),
        (("--user", "stranger"), "stranger is not a member of project lab"),
    ):
        with pytest.raises(CommandError, match=why):
            call_command("create_token", "ci", "--project", project.slug, *arguments, stdout=StringIO())


def test_every_address_of_another_projects_run_is_not_found(person: Any, project: Project, run: Run) -> None:
    other = demo_project("elsewhere")
    user = person("bob", *ACTING, of=other)
    execution = Execution.objects.filter(run=run).first()
    assert execution is not None
    api, pages = f"/api/v1/runs/{run.pk}", f"/runs/{run.pk}"
    reads = [
        *(f"{api}{tail}" for tail in ("", "/events", "/metrics", "/executions", "/decisions", "/batches", "/overrides",
                                      "/groups", "/report", "/what-if", "/calls/quarantined", "/calls/false_forks",
                                      "/exports/executions.csv", "/exports/calls.jsonl")),
        f"/api/v1/groups/{execution.group_id}",
        *(f"/api/v1/executions/{execution.pk}{tail}" for tail in ("", "/tree", "/assessments", "/selection")),
        f"/api/v1/cells/{run.pk}-0", f"/api/v1/cells?run={run.pk}",
    ]  # fmt: skip
    acts = [
        *(f"{api}/{act}" for act in ("stop", "pause", "resume", "overrides", "reassess", "what-if")),
        *(f"/api/v1/executions/{execution.pk}/{act}" for act in ("cancel", "reassess")),
    ]
    views = [
        *(f"{pages}/{name}" for name in ("", "chart.json", "cells/", "decisions/", "batches/", "config/", "what-if/",
                                         "executions/", "groups/", "report/", "quarantine/")),
        *(f"/executions/{execution.pk}/{name}" for name in ("", "outline/", "verdicts/", "replay/")),
    ]  # fmt: skip
    for client in (machine(user, other, "read", "operate", "launch"), browser(user)):
        for path in reads:
            assert client.get(path).status_code == 404, path
        for path in acts:
            assert client.post(path, {"reason": "x"}, content_type="application/json").status_code == 404, path
    for path in views:
        assert browser(user).get(path).status_code == 404, path
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING


MODELS = [
    model
    for label in ("agents", "scheduler", "trainers")
    for model in apps.get_app_config(label).get_models()
    if path_to_project(model)
]


def test_the_admin_shows_staff_only_rows_of_their_projects(person: Any, project: Project, run: Run) -> None:
    views = [f"view_{model._meta.model_name}" for model in MODELS]
    inside = browser(person("in", *views, of=project, is_staff=True))
    outside = browser(person("out", *views, of=demo_project("elsewhere"), is_staff=True))
    num_rows = 0
    for model in MODELS:
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        assert outside.get(base).status_code == 200
        rows = model._base_manager.filter(**{path_to_project(model): project.pk})
        for key in rows.values_list("pk", flat=True)[:1]:
            num_rows += 1
            assert inside.get(f"{base}{key}/change/").status_code == 200, base
            assert outside.get(f"{base}{key}/change/").status_code == 302, base  # to the index, as for no such row
    assert num_rows > 10


def test_most_tables_belong_to_projects() -> None:
    names = {model.__name__ for model in MODELS}
    assert {"Run", "Execution", "Assessment", "Call", "RequestBody", "Override", "Checkpoint", "WhatIf"} <= names
