"""`make up`: servers, migrations, processes, a run; then watch until Ctrl-C, or until the run ends (ONCE=1)."""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from gyreweb import embedded, env
from gyreweb.embedded import ports as tcp
from gyreweb.supervisor import record
from gyreweb.supervisor.children import Child, stop_all
from gyreweb.supervisor.console import Console
from gyreweb.supervisor.errors import CannotStart, StopRequested
from gyreweb.supervisor.services import Ports, all_services, environment

TICK_S = 0.2
PROGRESS_EVERY_S = 1.0
#: A child that crashes this often before it was ever ready will not come up.
MAX_START_CRASHES = 5
START_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Options:
    """`preset` and `seed` of the run to launch; `once` ends with the run and prints its summary."""

    preset: str
    seed: int | None
    once: bool

    @classmethod
    def from_environment(cls) -> "Options":
        seed = env.text("SEED")
        return cls(
            preset=env.text("PRESET", "quickstart"),
            seed=env.integer("SEED", 0) if seed else None,
            once=env.flag("ONCE"),
        )


@dataclass
class Signals:
    """INT and TERM: the first one asks for an orderly stop, a later one for a quick one."""

    count: int = 0
    stopping: bool = False
    _before: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> "Signals":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hurry(self) -> bool:
        return self.count > 1

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if not self.stopping:
            self.stopping = True
            raise StopRequested


def up(options: Options) -> int:
    """Returns the exit code."""
    console = Console(sys.stderr if options.once else sys.stdout)
    home = env.home()
    with Signals() as signals:
        try:
            if record.is_held(home):
                raise CannotStart(record.already_running(home))
            ports = _choose_ports(options.once)
            os.environ |= {"GYRE_WEB_PORT": str(ports.web), "GYRE_PROXY_PORT": str(ports.proxy)}
            os.environ.setdefault("GYRE_HTTPS", "0")
            host = env.text("GYRE_HOST", tcp.LOOPBACK)
            web = f"http://{host}:{ports.web}/"
            with record.held(home, web, f"http://127.0.0.1:{ports.proxy}") as mine:
                console.notice(f"Data and logs: {home}")
                with embedded.servers() as urls:
                    os.environ |= urls.environment()
                    return _supervise(options, console, signals, home, host, ports, mine)
        except StopRequested:
            console.notice("Stopped.")
            return 130 if options.once else 0
        except (CannotStart, embedded.EmbeddedError) as error:
            console.notice(f"gyre: {error}")
            return 1


def _supervise(
    options: Options, console: Console, signals: Signals, home: Path, host: str, ports: Ports, mine: record.Record
) -> int:
    _prepare_database(console)
    children = [
        Child(
            service,
            home / "logs" / f"{service.name}.log",
            environment(ports, record.TOKEN_VARIABLE, mine.token),
            console.notice,
        )
        for service in all_services(home, host, ports)
    ]
    try:
        for child in children:
            child.start()
        _wait_until_ready(children, console)
        console.notice(f"Dashboard: {mine.web}")
        return _watch_run(options, children, console)
    finally:
        signals.stopping = True
        console.notice("Stopping …")
        stop_all(children, signals.hurry)
        record.kill_marked(mine)


def _choose_ports(once: bool) -> Ports:
    """The configured ports, or free ones for ONCE. Raises CannotStart naming the variable of a taken port."""
    chosen = []
    for variable, default, what in (
        ("GYRE_WEB_PORT", 8700, "the dashboard"),
        ("GYRE_PROXY_PORT", 8701, "the recording proxy"),
    ):
        if once and not env.text(variable):
            chosen.append(tcp.free_port())
            continue
        port = env.integer(variable, default)
        if not tcp.is_free(port):
            raise CannotStart(
                f"port {port} for {what} is taken by another program. Set {variable} to a free port, "
                f"e.g. `make up {variable}={tcp.free_port()}`."
            )
        chosen.append(port)
    return Ports(*chosen)


def _prepare_database(console: Console) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "gyreweb.settings"
    import django

    django.setup()
    from django.core.management import call_command

    from gyreweb.supervisor.accounts import ADMIN, create_first_admin

    call_command("migrate", verbosity=0, interactive=False)
    if password := create_first_admin():
        console.notice(f"Login, shown only once: {ADMIN} / {password}")


def _wait_until_ready(children: list[Child], console: Console) -> None:
    started = time.monotonic()
    while waiting := [child for child in children if not child.ready]:
        for child in children:
            child.watch()
            if child.num_crashes >= MAX_START_CRASHES and not child.ready:
                raise CannotStart(f"{child.service.name} does not start; its log is {child.log}")
        elapsed = time.monotonic() - started
        if elapsed > START_TIMEOUT_S:
            raise CannotStart(
                f"{waiting[0].service.name} was not ready in {elapsed:.0f} s; its log is {waiting[0].log}"
            )
        names = ", ".join(child.service.name for child in waiting)
        console.status(f"Starting {names} … {elapsed:.0f} s", key=names)
        time.sleep(TICK_S)


def _watch_run(options: Options, children: list[Child], console: Console) -> int:
    """Show the run until it ends (ONCE) or for ever."""
    from gyreweb.supervisor import progress
    from gyreweb.supervisor.runs import run_to_watch
    from gyreweb.supervisor.summary import summarize

    run = run_to_watch(options.preset, options.seed, options.once, console.notice)
    shown_trouble, ended, next_look = "", False, 0.0
    while True:
        for child in children:
            child.watch()
        if not ended and time.monotonic() >= next_look:
            next_look = time.monotonic() + PROGRESS_EVERY_S
            run.refresh_from_db()
            if (trouble := progress.trouble(run)) != shown_trouble:
                shown_trouble = trouble
                if trouble:
                    console.notice(trouble)
            console.status(*progress.line(run))
            ended = run.state not in run.LIVE_STATES
            if ended:
                console.notice(f"Run {run.pk} is {run.state}{f': {run.state_reason}' if run.state_reason else ''}.")
                summary = json.dumps(summarize(run.pk).as_json())
                if options.once:
                    print(summary, flush=True)
                    return 0 if run.state == run.State.FINISHED else 1
                console.notice(f"{summary}\nThe dashboard stays up; Ctrl-C stops Gyre.")
        time.sleep(TICK_S)
