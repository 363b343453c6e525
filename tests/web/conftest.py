"""People, projects and small demo runs for tests of pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from agents.models import Project, Run
from tests.support.demo_run import Shape, demo_project, demo_run

SMALL = Shape(groups_per_batch=3, executions_per_group=3, bursts=2, cells=3, concurrency=6)


@pytest.fixture
def project(db: None) -> Project:
    return demo_project()


@pytest.fixture
def run(project: Project) -> Run:
    return demo_run(project=project, shape=SMALL)


@pytest.fixture
def browser(db: None) -> Client:
    """A superuser's browser."""
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root", "root@example.org", "secret"))
    return client


@pytest.fixture
def member(project: Project) -> Any:
    """Makes a browser of a member of the project with the given permissions of the agents app."""

    def make(*permissions: str, name: str = "member", of: Project | None = project) -> Client:
        user = get_user_model().objects.create_user(name)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="agents"))
        if of is not None:
            of.members.add(user)
        client = Client()
        client.force_login(user)
        return client

    return make
