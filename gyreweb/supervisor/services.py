"""The processes of a Gyre on one machine, and how to see that each is ready."""

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gyreweb import env
from gyreweb.supervisor.cellnetwork import SHARED, CellNetwork
from trainers.launch import wire

LOOPBACK = "127.0.0.1"
CELERY_QUIETLY = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")
#: Celery writes this when it takes messages.
CELERY_READY = b" ready."


@dataclass(frozen=True)
class Service:
    """`ready` gets what the process has logged since its start; `variables` are its own environment."""

    name: str
    command: tuple[str, ...]
    ready: Callable[[bytes], bool]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ports:
    """`proxies`: one port for each recording proxy; the first one is `proxy`."""

    web: int
    proxies: tuple[int, ...]

    @property
    def proxy(self) -> int:
        return self.proxies[0]


def all_services(home: Path, host: str, ports: Ports, cells: CellNetwork = SHARED) -> list[Service]:
    """In the order in which they start."""
    python = sys.executable
    web = ("-m", "gyreweb.serve", "--host", host, "--port", str(ports.web))
    return [
        Service(
            "cellhost", cells.enclosed((python, "-m", "trainers.launch.host")), _cell_host(home), cells.for_cells()
        ),
        Service("web", (python, *web), _http(host, ports.web, "/login/")),
        *(_proxy(home, number, port, cells.for_proxies(home)) for number, port in enumerate(ports.proxies)),
        _worker("worker-executions", "executions", threads=160, connections=64),
        _worker("worker-control", "evaluation,cells,control", threads=24, connections=8),
        Service("scheduler", (python, "manage.py", "run_scheduler"), lambda _log: True),
    ]


def environment(ports: Ports, token_variable: str, token: str) -> dict[str, str]:
    """What every child gets on top of the supervisor's own environment."""
    return {
        **os.environ,
        token_variable: token,
        "DJANGO_SETTINGS_MODULE": "gyreweb.settings",
        "GYRE_HOME": str(env.home()),
        "GYRE_WEB_PORT": str(ports.web),
        "GYRE_PROXY_PORT": str(ports.proxy),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _proxy(home: Path, number: int, port: int, variables: Mapping[str, str]) -> Service:
    """A recording proxy. Its name stays the same over restarts, and with it the executions that it owns."""
    suffix = f"-{number}" if number else ""
    command = (
        sys.executable, "-m", "agents.proxy", "--name", f"proxy-{number}", "--port", str(port),
        "--socket", str(home / "run" / f"proxy{suffix}.sock"),
    )  # fmt: skip
    return Service(f"proxy{suffix}", command, _http(LOOPBACK, port, "/health"), variables)


def _worker(name: str, queues: str, threads: int, connections: int) -> Service:
    """A Celery worker whose threads share a pool of database connections."""
    command = (
        sys.executable, "-m", "celery", "-A", "gyreweb.celery", "worker",
        "--pool", "threads", "--concurrency", str(threads), "--queues", queues, "--hostname", f"{name}@%h",
        *CELERY_QUIETLY,
    )  # fmt: skip
    return Service(name, command, lambda log: CELERY_READY in log, variables={"GYRE_DB_POOL_SIZE": str(connections)})


def _cell_host(home: Path) -> Callable[[bytes], bool]:
    def ready(_log: bytes) -> bool:
        try:
            wire.ask(home, {"op": "list"}, timeout_s=2)
        except (wire.HostUnavailable, wire.HostRefused):
            return False
        return True

    return ready


def _http(host: str, port: int, path: str) -> Callable[[bytes], bool]:
    """An answer of any kind will do, except a server error."""
    reachable = LOOPBACK if host == "0.0.0.0" else host

    def ready(_log: bytes) -> bool:
        try:
            with urllib.request.urlopen(f"http://{reachable}:{port}{path}", timeout=2):
                return True
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code < 500
        except OSError:
            return False

    return ready
