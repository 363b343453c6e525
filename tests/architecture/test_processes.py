"""What each process may load. Asked in a fresh interpreter, since imports hide behind imports."""

import os
import subprocess
import sys

import pytest

from gyreweb.env import REPO_ROOT

pytestmark = pytest.mark.platform

HEAVY = {"torch", "sglang", "megatron", "mooncake", "transformers"}
WEB = "import gyreweb.asgi, gyreweb.celery; from django.urls import get_resolver; get_resolver().url_patterns"
PROXY = "import agents.proxy.__main__"


def loaded_by(program: str) -> set[str]:
    """Top-level names in sys.modules after `program`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"],
        cwd=REPO_ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "gyreweb.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("program", [WEB, "import django; django.setup(); import agents.tasks, scheduler.tasks"])
def test_web_and_workers_never_load_torch(program: str) -> None:
    assert loaded_by(program) & HEAVY == set()


def test_the_proxy_loads_neither_django_nor_torch() -> None:
    assert loaded_by(PROXY) & (HEAVY | {"django"}) == set()


def test_the_setup_needs_nothing_but_the_standard_library() -> None:
    own = {"gyreweb", "sitecustomize"}  # the latter is the distribution's
    loaded = loaded_by("import gyreweb.setup.__main__")
    assert {name for name in loaded - own - sys.stdlib_module_names if not name.startswith("_")} == set()
