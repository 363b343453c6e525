"""A deployment over https is hardened by default: Django's own deployment check has nothing to say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gyreweb.env import REPO_ROOT

pytestmark = pytest.mark.platform


def test_the_deployment_check_is_clean_with_the_default_settings(gyre_home: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GYRE_HTTPS"}
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(command, cwd=REPO_ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_schema_of_the_api_has_no_warnings() -> None:
    command = [sys.executable, "manage.py", "spectacular", "--validate", "--fail-on-warn", "--file", os.devnull]
    done = subprocess.run(command, cwd=REPO_ROOT, env=os.environ.copy(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
