"""`make up`: servers, migrations, processes, a run; then watch until Ctrl-C, or until the run ends (ONCE=1)."""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gyreweb import embedded, env, reach, variables
from gyreweb.embedded import ports as tcp
from gyreweb.supervisor import cellnetwork, record
from gyreweb.supervisor.children import Child, stop_all
from gyreweb.supervisor.console import Console
from gyreweb.supervisor.errors import CannotStart, StopRequested
from gyreweb.supervisor.services import Ports, all_services, environment
from gyreweb.supervisor.signals import Signals
from gyreweb.supervisor.watch import TICK_S, Watch
from scheduler import config

#: How long ONCE, which runs unattended, waits for a run that needs a person.
PATIENCE_S = 300.0


@dataclass(frozen=True)
class Options:
    """`preset` and `seed` of the run to launch, and whether somebody `asked` for either.

    `once` ends with the run and prints its summary.
    """

    preset: str
    seed: int | None
    asked: bool
    once: bool

    @classmethod
    def from_environment(cls) -> "Options":
        return cls(
            preset=env.text("PRESET", "quickstart"),
            seed=env.integer("SEED", 0) if env.text("SEED") else None,
            asked=bool(env.text("PRESET") or env.text("SEED")),
            once=env.flag("ONCE"),
        )


def up(options: Options) -> int:
    """Returns the exit code. In ONCE mode standard output carries the summary and nothing else."""
    console = Console(sys.stderr if options.once else sys.stdout)
    home = env.home()
    with Signals() as signals:
        try:
            _check(options)
            if record.is_held(home):
                raise CannotStart(record.already_running(home))
            ports = _choose_ports(options.once)
            host = _host()
            os.environ |= {"GYRE_WEB_PORT": str(ports.web), "GYRE_PROXY_PORT": str(ports.proxy)}
            proxies = " ".join(f"http://{tcp.LOOPBACK}:{port}/" for port in ports.proxies)
            with record.held(home, f"http://{host}:{ports.web}/", proxies) as mine:
                console.notice(f"Data and logs: {home}")
                with embedded.servers(home) as urls:
                    os.environ |= urls.environment()
                    _prepare_database(options, console)
                    cells = cellnetwork.choose(urls, console.notice)
                    children = _children(home, host, ports, cells, mine, console)
                    try:
                        return _run(options, Watch(children, urls, home, console), mine, console)
                    finally:
                        signals.begin_stop()
                        console.notice("Stopping …")
                        stop_all(children, signals.hurry)
                        record.kill_marked(mine)
        except StopRequested as stop:
            console.notice(f"Stopped by {stop}. A run that has not ended goes on at the next `make up`.")
            return 130 if options.once else 0
        except (CannotStart, embedded.EmbeddedError, env.BadEnvironment) as error:
            console.notice(f"gyre: {error}")
            return 1


def _check(options: Options) -> None:
    """Raises CannotStart when a variable cannot be used, or no run could be launched with these options."""
    if wrong := list(variables.problems()):
        raise CannotStart("\n".join(wrong))
    try:
        config.preset(options.preset, **({} if options.seed is None else {"seed": options.seed}))
    except config.BadConfig as error:
        raise CannotStart("; ".join(f"{name.upper()}: {why}" for name, why in error.problems.items())) from error


def _host() -> str:
    """Where the dashboard listens; https is off by default on loopback. Raises CannotStart."""
    host = env.text("GYRE_HOST", tcp.LOOPBACK)
    if reach.is_loopback(host) or env.flag(reach.PLAIN_HTTP_VARIABLE):
        os.environ.setdefault("GYRE_HTTPS", "0")
    https, behind_proxy = env.https(), env.behind_proxy()
    problem = reach.problem_with_host(host) or reach.problem_with_plain_http(host, https, behind_proxy)
    if problem:
        raise CannotStart(problem)
    return host


def _children(
    home: Path, host: str, ports: Ports, cells: cellnetwork.CellNetwork, mine: record.Record, console: Console
) -> list[Child]:
    variables = environment(ports, record.TOKEN_VARIABLE, mine.token)
    return [
        Child(service, home / "logs" / f"{service.name}.log", variables, console.notice)
        for service in all_services(home, host, ports, cells)
    ]


def _choose_ports(once: bool) -> Ports:
    """The configured ports, or free ones for ONCE. Raises CannotStart naming the variable of a taken port."""
    chosen = Ports(
        web=_choose_port("GYRE_WEB_PORT", env.web_port, "the dashboard", once),
        proxies=tuple(
            _choose_port("GYRE_PROXY_PORT", env.proxy_port, "the recording proxy", once, number)
            for number in range(env.num_proxies())
        ),
    )
    _check_distinct(chosen)
    return chosen


def _check_distinct(chosen: Ports) -> None:
    """Raises CannotStart when two of Gyre's own processes would listen on one port."""
    wanted = [("GYRE_WEB_PORT", chosen.web), *(("GYRE_PROXY_PORT", port) for port in chosen.proxies)]
    wanted += [(name, env.port(name, 0)) for name in ("GYRE_PG_PORT", "GYRE_VALKEY_PORT") if env.text(name)]
    names: dict[int, str] = {}
    for name, port in wanted:
        if port in names:
            raise CannotStart(f"{names[port]} and {name} both lead to port {port}: give each a port of its own.")
        names[port] = name


def _choose_port(variable: str, first: Callable[[], int], what: str, once: bool, number: int = 0) -> int:
    """Port `number` of those that begin at the variable's."""
    if once and not env.text(variable):
        return tcp.free_port()
    port = first() + number
    if port > env.MAX_PORT:
        raise CannotStart(f"{variable}={port - number} leaves no port for {what} {number}: choose a lower one.")
    if not tcp.is_free(port):
        raise CannotStart(
            f"port {port} for {what}{f' {number}' if number else ''} is taken by another program. Set {variable} to "
            f"{'the first of free ports' if number else 'a free port'}, e.g. `make up {variable}={tcp.free_port()}`."
        )
    return port


def _prepare_database(options: Options, console: Console) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "gyreweb.settings"
    import django

    django.setup()
    from django.core.management import call_command

    from gyreweb.supervisor.accounts import ADMIN, create_first_admin, login_hint

    call_command("migrate", verbosity=0, interactive=False)
    if password := create_first_admin():
        console.notice(f"Login, shown only once: {ADMIN} / {password}")
    elif not options.once:
        console.notice(login_hint())


def _run(options: Options, watch: Watch, mine: record.Record, console: Console) -> int:
    """Start the processes, launch or resume a run, and follow it: to its end (ONCE) or for ever."""
    from gyreweb.supervisor.follow import Follower
    from gyreweb.supervisor.runs import run_to_end, run_to_show
    from gyreweb.supervisor.summary import summarize

    for child in watch.children:
        child.start()
    watch.wait_until_ready()
    console.notice(f"Dashboard: {mine.web}")
    if not options.once:
        follower = Follower(run_to_show(options.preset, options.seed, options.asked, console.notice), console)
        while True:
            watch.tick()
            follower.refresh()
            time.sleep(TICK_S)
    run = run_to_end(options.preset, options.seed, console.notice)
    follower = Follower(run, console)
    while not follower.ended:
        watch.tick()
        follower.refresh()
        if follower.waiting_s() > PATIENCE_S:
            why = run.state_reason or "dispatch is held; the alarms on its page say why"
            raise CannotStart(f"run {run.pk} waits for somebody: {why}. It can be resumed.")
        time.sleep(TICK_S)
    print(json.dumps(summarize(run.pk).as_json()), flush=True)
    return 0 if run.state == run.State.FINISHED else 1
