"""Schemathesis makes requests of every kind that the committed schema allows, and many that it does not.

No answer is a server error; each has a status, a media type and a body that the schema names. Every operation is asked
with an administrator's token, two times of three about rows that exist. Draws are fixed, so a failure comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agents.models import ApiToken, Execution, Group, Run
from gyreweb.env import REPO_ROOT

EXAMPLES_PER_OPERATION = 15
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

schema = schemathesis.openapi.from_path(str(REPO_ROOT / "docs" / "openapi.yaml"))
schema.app = get_wsgi_application()


@pytest.fixture(autouse=True)
def one_transaction() -> Iterator[None]:
    """As Django's own test client does: a request must not close the connection that holds the test's rows."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def existing(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.pk,
        "execution_id": Execution.objects.filter(run=run).latest("pk").pk,
        "group_id": Group.objects.filter(run=run).latest("pk").pk,
        "name": f"{run.pk}-0",
    }


@pytest.fixture
def secret(machine: Callable[..., Any]) -> str:
    found: str = machine(*ApiToken.Scope.values).secret
    return found


@pytest.fixture
def numbers() -> count[int]:
    return count()


@schema.parametrize()
@settings(
    max_examples=EXAMPLES_PER_OPERATION,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_is_answered_otherwise_than_the_schema_says(
    case: schemathesis.Case, existing: dict[str, Any], secret: str, numbers: count[int]
) -> None:
    if next(numbers) % 3:
        case.path_parameters |= {name: existing[name] for name in case.path_parameters if name in existing}
    case.call_and_validate(headers={"Authorization": f"Bearer {secret}"}, checks=CHECKS)
