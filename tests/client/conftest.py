"""The real command as a process of its own, against a real web process over the test database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from agents.actions.api_tokens import create_token
from agents.models import Run
from gyreweb.api.auth import new_secret
from gyreweb.env import REPO_ROOT
from tests.support.demo_run import Shape, demo_run
from tests.support.web_process import web_process

SMALL = Shape(groups_per_batch=2, executions_per_group=3, bursts=2, cells=2, concurrency=6)
COMMAND = [sys.executable, "-m", "gyreweb.client"]
LIMIT_S = 90


@pytest.fixture(scope="module")
def site(django_db_setup: None) -> Iterator[str]:
    with web_process() as process:
        yield process.address


@pytest.fixture
def run(database_url: str) -> Run:
    return demo_run(shape=SMALL)


def token_for(run: Run, *scopes: str) -> str:
    user = get_user_model().objects.get_or_create(username="ci", is_superuser=True)[0]
    secret, digest = new_secret()
    create_token(
        project=run.project, user=user, name="ci", scopes=scopes, digest=digest, prefix=secret[:12], expires_at=None
    )
    return secret


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Gyre:
    """Runs the command with a home of its own."""

    def __init__(self, site: str, token: str, home: Path) -> None:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("GYRE_", "DJANGO", "DISPLAY"))
        }
        self.home = home
        self.variables = kept | {"HOME": str(home), "GYRE_URL": site, "GYRE_TOKEN": token}
        self.variables.pop("XDG_CONFIG_HOME", None)

    def start(self, *arguments: Any, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)], cwd=REPO_ROOT, env=self.variables | variables, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, *arguments: Any, **variables: str) -> Done:
        with self.start(*arguments, **variables) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        return Done(process.returncode, out, err)


@pytest.fixture
def gyre(site: str, run: Run, tmp_path: Path) -> Gyre:
    return Gyre(site, token_for(run, "read", "launch", "operate"), tmp_path)


@pytest.fixture
def with_scopes(site: str, run: Run, tmp_path: Path) -> Callable[..., Gyre]:
    return lambda *scopes: Gyre(site, token_for(run, *scopes), tmp_path)
