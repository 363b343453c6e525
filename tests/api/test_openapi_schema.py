"""The committed OpenAPI schema is the one that the code makes, and it describes every address."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from django.test import Client
from django.urls import get_resolver

from gyreweb.env import REPO_ROOT

COMMITTED = REPO_ROOT / "docs" / "openapi.yaml"


@pytest.fixture
def schema(db: None) -> Any:
    reply = Client().get("/api/v1/schema")
    assert reply.status_code in (200, 401)
    from drf_spectacular.generators import SchemaGenerator

    return SchemaGenerator().get_schema(request=None, public=True)


def test_the_committed_schema_is_current(schema: Any) -> None:
    from drf_spectacular.renderers import OpenApiYamlRenderer

    made = OpenApiYamlRenderer().render(schema, renderer_context={}).decode()
    assert COMMITTED.read_text() == made, "write it anew: manage.py spectacular --file docs/openapi.yaml"


def test_every_address_of_v1_is_described(schema: Any) -> None:
    listed = {re.sub(r"\{[^}]+\}", "{}", path) for path in schema["paths"]}
    real = set()
    for pattern in get_resolver("gyreweb.api.urls").url_patterns[0].url_patterns:
        path = re.sub(r"<[^>]+>|\(\?P<[^)]*\)", "{}", str(pattern.pattern)).strip("^$")
        real.add(f"/api/v1/{path}")
    assert real - {"/api/v1/schema"} == listed - {"/api/v1/schema"}


def test_every_operation_names_its_problems_and_has_a_unique_id(schema: Any) -> None:
    ids = []
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            if path.endswith("/schema"):
                continue
            ids.append(operation["operationId"])
            assert "401" in operation["responses"], f"{method} {path}"
            assert operation["security"][0] == {"token": []}, f"{method} {path}"
    assert len(ids) == len(set(ids)) > 15


def test_the_schema_is_valid_yaml_with_a_version() -> None:
    loaded = yaml.safe_load(COMMITTED.read_text())
    assert loaded["openapi"].startswith("3.")
    assert loaded["info"]["title"] == "Gyre API"
