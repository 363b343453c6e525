"""How the OpenAPI schema describes our authentication, the scope of each operation, and the run settings."""

from __future__ import annotations

import json
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema

from scheduler.config import RunConfig

SCOPE = "x-required-scope"


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "gyreweb.api.auth.ApiTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        made_by = "Made by `.venv/bin/python manage.py create_token`."
        return {"type": "http", "scheme": "bearer", "description": made_by}


class ScopedSchema(AutoSchema):
    """Says of each operation which scope its caller needs, and that its errors are problem documents."""

    def _get_response_for_code(
        self, serializer: Any, status_code: str, media_types: list[str] | None = None, direction: str = "response"
    ) -> Any:
        from gyreweb.api.problems import ProblemRenderer  # as below

        if int(status_code) >= 400:
            media_types = [ProblemRenderer.media_type]
        return super()._get_response_for_code(serializer, status_code, media_types, direction)

    def get_operation(self, *args: Any) -> Any:
        from gyreweb.api.serializers import Problem  # as below

        operation = super().get_operation(*args)
        if operation:
            # An address that holds a NUL; a body that is no JSON, too large, or says that it is none.
            codes = ("400", "413", "415") if "requestBody" in operation else ("400",)
            unread = {code: self._get_response_for_code(Problem, code) for code in codes}
            operation["responses"] = dict(sorted((operation["responses"] | unread).items()))
        return operation

    def get_extensions(self) -> dict[str, str]:
        from gyreweb.api.auth import needed_scope  # DRF imports this module while it builds its views

        return {SCOPE: needed_scope(self.view, self.method)}


class SettingsExtension(OpenApiSerializerFieldExtension):
    """The field of a launch that holds run settings, as the component `Settings`."""

    target_class = "gyreweb.api.serializers.SettingsField"

    def get_name(self) -> str:
        return "Settings"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        made = RunConfig.model_json_schema()
        return {
            "type": "object",
            "description": "Run settings. Those that are not given keep the preset's value, without a preset the "
            "cluster default.",
            "properties": {name: _openapi_3_0(spec) for name, spec in made["properties"].items()},
            "additionalProperties": False,
        }


def _openapi_3_0(spec: dict[str, Any]) -> dict[str, Any]:
    """A field in the words of OpenAPI 3.0, which knows no `const`, no `prefixItems` and only flags for open ends.

    No `default`: a client that fills it in would override the preset.
    """
    found = {name: value for name, value in spec.items() if name not in ("title", "default")}
    default = spec["default"]
    said = ", ".join(map(str, default)) if isinstance(default, list) else json.dumps(default).strip('"')
    found["description"] = f"{spec['description']} Cluster default: {said or 'empty'}."
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if "prefixItems" in found:
        found["items"] = found.pop("prefixItems")[0]
    for end, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if end in found:
            found[limit], found[end] = found[end], True
    return found
