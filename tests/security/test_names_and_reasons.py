"""Names and reasons that people type reach others' terminals and pages: they may neither command nor hide."""

import json
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from agents.actions.api_tokens import create_token
from agents.actions.change_run_state import pause_run
from agents.actions.errors import Refused
from agents.core import plain_text
from agents.models import ApiToken, Run
from gyreweb.api.auth import new_secret
from tests.support.demo_run import Shape, demo_run

pytestmark = pytest.mark.django_db
SMALL = Shape(groups_per_batch=2, executions_per_group=3, bursts=1, cells=2, concurrency=6)
HOSTILE = ["\x1b[2Jred", "a\u202egnp.exe", "a\u2066b", "a\u200bb", "a\x9bb", "a\rb"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_run_is_not_launched_under_a_hostile_name(text: str) -> None:
    with pytest.raises(CommandError, match=r"name: it holds the control character U\+[0-9A-F]{4} at position \d+"):
        call_command("launch", "--name", text)
    assert not Run.objects.exists()


def test_names_are_one_line_and_in_any_script() -> None:
    assert "U+000A" in plain_text.problem("a\nb")
    assert plain_text.problem("a\nb", one_line=False) == ""
    assert [plain_text.problem(name) for name in ("Übung 3", "実験-7", "تجربة", "🚀 fast", "a & <b>")] == [""] * 5


@pytest.mark.parametrize("text", HOSTILE)
def test_the_api_names_the_field_and_writes_nothing(text: str) -> None:
    run = demo_run(shape=SMALL)
    user = get_user_model().objects.create_superuser("root")
    secret, digest = new_secret()
    create_token(
        project=run.project, user=user, name="ci", scopes=list(ApiToken.Scope.values), digest=digest, prefix="x",
        expires_at=None,
    )  # fmt: skip
    machine = Client(headers={"Authorization": f"Bearer {secret}"})
    expires_at = (timezone.now() + timedelta(hours=1)).isoformat()
    bodies = {
        "/api/v1/runs": {"preset": "quickstart", "name": text},
        f"/api/v1/runs/{run.pk}/pause": {"reason": text},
        f"/api/v1/runs/{run.pk}/overrides": {"kind": "hold_dispatch", "reason": text, "expires_at": expires_at},
    }
    for path, body in bodies.items():
        reply = machine.post(path, json.dumps(body), content_type="application/json")
        assert reply.status_code == 422, path
        problem = reply.json()["errors"]["name" if path == "/api/v1/runs" else "reason"]
        assert "it holds the control character U+" in str(problem), path
    run.refresh_from_db()
    assert (Run.objects.count(), run.state, run.overrides.count()) == (1, "running", 0)


def test_pages_shell_and_admin_go_through_the_same_actions() -> None:
    run = demo_run(shape=SMALL)
    with pytest.raises(Refused, match=r"the reason holds the control character U\+001B at position 1"):
        pause_run(run, user=None, reason="\x1b[0m")
    with pytest.raises(ValueError, match="the token's name holds"):
        create_token(
            project=run.project, user=None, name="\u202e", scopes=["read"], digest=b"", prefix="", expires_at=None
        )


def test_a_name_that_is_too_long_is_refused_by_its_length() -> None:
    with pytest.raises(CommandError, match="name: it has 300 characters; at most 120 are kept"):
        call_command("launch", "--name", "x" * 300)
    assert not Run.objects.exists()
