"""The command `gyre` installs alone, from its folder, and works where nothing else of Gyre is."""

from __future__ import annotations

import shutil
import subprocess
import venv
from pathlib import Path

from agents.models import Run
from gyreweb.env import REPO_ROOT
from tests.client.conftest import SMALL, token_for
from tests.support.demo_run import demo_run
from tests.support.web_process import web_process

MODULES = "import importlib.util as u; print([m for m in ('django', 'torch', 'numpy', 'gyreweb') if u.find_spec(m)])"


def test_the_folder_alone_installs_without_gyre_and_talks_to_a_server(database_url: str, tmp_path: Path) -> None:
    folder, place = tmp_path / "client", tmp_path / "venv"
    shutil.copytree(REPO_ROOT / "gyreweb" / "client", folder, ignore=shutil.ignore_patterns("__pycache__"))
    venv.create(place, with_pip=True)
    python, gyre = str(place / "bin" / "python"), str(place / "bin" / "gyre")
    install = [python, "-m", "pip", "install", "--no-input", "--quiet", "--disable-pip-version-check", str(folder)]
    done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert _said(python, "-c", MODULES) == "[]\n"
    assert "Exit codes:" in _said(gyre, "--help")

    run: Run = demo_run(shape=SMALL)
    variables = {"GYRE_TOKEN": token_for(run, "read"), "HOME": str(tmp_path)}
    with web_process() as process:
        listed = _said(gyre, "list", "--json", GYRE_URL=process.address, **variables)
    assert f'"id": {run.pk}' in listed


def _said(*command: str, **variables: str) -> str:
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"} | variables
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd="/", env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout
