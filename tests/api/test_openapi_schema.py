"""The committed OpenAPI schema is the one that the code makes, and it describes every address."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from django.test import Client
from django.urls import get_resolver

from agents.web.access import ALL_SCOPES
from gyreweb.api import serializers
from gyreweb.env import REPO_ROOT
from scheduler.config import RunConfig

COMMITTED = REPO_ROOT / "docs" / "openapi.yaml"


@pytest.fixture
def schema(db: None) -> Any:
    from drf_spectacular.generators import SchemaGenerator

    return SchemaGenerator().get_schema(request=None, public=True)


def test_the_schema_is_served_to_who_may_read_and_made_once(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().get("/api/v1/schema").status_code == 401
    client = machine("read")
    assert client.get("/api/v1/schema").content == COMMITTED.read_bytes()
    monkeypatch.setattr("drf_spectacular.generators.SchemaGenerator.get_schema", None)
    as_json = client.get("/api/v1/schema", headers={"accept": "application/json"})
    assert as_json.json() == yaml.safe_load(COMMITTED.read_text())
    assert client.get("/api/v1/schema").content == COMMITTED.read_bytes()


def test_the_committed_schema_is_current(schema: Any) -> None:
    from drf_spectacular.renderers import OpenApiYamlRenderer

    made = OpenApiYamlRenderer().render(schema, renderer_context={}).decode()
    assert COMMITTED.read_text() == made, (
        "write it anew: .venv/bin/python manage.py spectacular --file docs/openapi.yaml"
    )


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
            assert operation["x-required-scope"] in ALL_SCOPES, f"{method} {path}"
    assert len(ids) == len(set(ids)) > 15


def test_the_settings_of_a_launch_list_every_field_with_its_range_and_no_default(schema: Any) -> None:
    shapes = schema["components"]["schemas"]
    assert shapes["Launch"]["properties"]["settings"]["allOf"] == [{"$ref": "#/components/schemas/Settings"}]
    settings = shapes["Settings"]
    assert set(settings["properties"]) == set(RunConfig.model_fields)
    assert not settings["additionalProperties"]
    cells, clip_low = settings["properties"]["cells"], settings["properties"]["clip_low"]
    assert cells == {
        "type": "integer",
        "minimum": 1,
        "maximum": 64,
        "description": "K: cells of the run. Cluster default: 8.",
    }
    assert (clip_low["minimum"], clip_low["exclusiveMinimum"]) == (0, True)
    assert all("default" not in spec for spec in settings["properties"].values())


def test_every_request_body_refuses_fields_that_it_does_not_know(schema: Any) -> None:
    names = set()
    for methods in schema["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {})
            names |= {media["schema"]["$ref"].rsplit("/", 1)[-1].removeprefix("Patched") for media in content.values()}
    assert {name for name in names if not issubclass(getattr(serializers, name), serializers.Body)} == set()
    assert "Launch" in names


def test_the_schema_is_valid_yaml_with_a_version() -> None:
    loaded = yaml.safe_load(COMMITTED.read_text())
    assert loaded["openapi"].startswith("3.")
    assert loaded["info"]["title"] == "Gyre API"
