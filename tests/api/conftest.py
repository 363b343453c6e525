"""Machines with tokens, for tests of the REST API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from schemathesis.pytest.plugin import SchemathesisFunction

from agents.actions.api_tokens import create_token
from agents.models import Project, Run
from gyreweb.api.auth import new_secret
from tests.support.demo_run import Shape, demo_project, demo_run

SMALL = Shape(groups_per_batch=2, executions_per_group=3, bursts=2, cells=2, concurrency=6)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Schemathesis gives the tests of all operations one id, and of those `pytest -n` would run only one."""
    if isinstance(item, SchemathesisFunction):
        item._id = item.id.with_params(item.operation_label)


@pytest.fixture
def project(db: None) -> Project:
    return demo_project()


@pytest.fixture
def run(project: Project) -> Run:
    return demo_run(project=project, shape=SMALL)


@pytest.fixture
def machine(project: Project) -> Callable[..., Client]:
    """Makes a client that sends a token with the given scopes of the given project."""

    def make(*scopes: str, of: Project | None = None, expires_at: datetime | None = None) -> Any:
        user = get_user_model().objects.get_or_create(username="ci", is_superuser=True)[0]
        secret, digest = new_secret()
        token = create_token(
            project=of or project, user=user, name="ci", scopes=scopes, digest=digest, prefix=secret[:12],
            expires_at=expires_at,
        )  # fmt: skip
        client = Client(headers={"Authorization": f"Bearer {secret}"})
        client.token, client.secret = token, secret
        return client

    return make
