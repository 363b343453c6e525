"""Real Postgres and Valkey for every test process, each with its own database and its own GYRE_HOME.

Servers are shared by all test processes of a user and stop with the last one; processes that share one `pytest -n` have
a Valkey each. The environment is set before Django's settings are loaded, so child processes that a test starts see the
same servers and the same test database.
"""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import django
import hypothesis
import psycopg
import pytest
from django.conf import settings
from psycopg import sql
from xdist.remote import Producer

from gyreweb import embedded
from tests import side_by_side, tiers

DATABASE = f"test_gyre_{os.getpid()}"
#: Nobody listens there: a test of a tier without servers that asks for a server fails.
NOWHERE = ("postgresql://nobody@127.0.0.1:1/none", "redis://127.0.0.1:1/0")


def _private_directory(name: str) -> Path:
    path = Path(tempfile.gettempdir()) / f"{name}-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.lstat().st_uid != os.geteuid() or path.is_symlink():
        raise pytest.UsageError(f"{path} belongs to somebody else; set TMPDIR to a directory of your own")
    return path


def _drop_databases_of_dead_processes(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        names = connection.execute(r"SELECT datname FROM pg_database WHERE datname LIKE 'test\_gyre\_%'").fetchall()
        for (name,) in names:
            if not Path(f"/proc/{name.removeprefix('test_gyre_')}").exists():
                drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
                connection.execute(drop)


def _folder(resources: ExitStack, prefix: str) -> Path:
    """A new folder for as long as this process lives."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    resources.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _servers(resources: ExitStack) -> tuple[str, str]:
    """Addresses of this process's database and of Valkey."""
    if side_by_side.is_one_of_several():
        # The process that deals out the tests has started Postgres and named it in the environment. Valkey cannot be
        # shared: channels and queues are named after runs, and every database numbers its runs from 1.
        del os.environ["REDIS_URL"]
        urls = resources.enter_context(embedded.servers(_folder(resources, "gyre-test-valkey-"), scratch=True))
    else:
        urls = resources.enter_context(embedded.servers(_private_directory("gyre-test-servers"), scratch=True))
        _drop_databases_of_dead_processes(urls.database)
    return urls.database.rsplit("/", 1)[0] + "/" + DATABASE, urls.redis


def _enter_environment(with_servers: bool) -> None:
    if settings.configured:
        raise pytest.UsageError("Django's settings name other servers already: unset DJANGO_SETTINGS_MODULE")
    resources = ExitStack()
    atexit.register(resources.close)
    home = _folder(resources, "gyre-test-")
    database, redis = _servers(resources) if with_servers else NOWHERE
    os.environ |= {
        "GYRE_HOME": str(home),
        "DATABASE_URL": database,
        "REDIS_URL": redis,
        "GYRE_HTTPS": "0",
        "DJANGO_SETTINGS_MODULE": "gyreweb.settings",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HF_HUB_OFFLINE": "1",
    }


def _make_django_quick() -> None:
    from tests.support import quick_django  # loads what needs the settings

    quick_django.make_quick()


def pytest_plugin_registered(plugin: object) -> None:
    """As soon as this file is known, and so before those in folders are loaded, which import models."""
    if isinstance(plugin, pytest.Config):
        _enter_environment(with_servers=not tiers.needs_no_servers(plugin))
        django.setup()
        _make_django_quick()


def pytest_configure(config: pytest.Config) -> None:
    for tier, meaning in tiers.TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {meaning}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before others are started: they would load Django's settings at once, and so before their own environment."""
    if side_by_side.deals_out(session.config):
        del os.environ["DJANGO_SETTINGS_MODULE"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is asked for without servers does not even import tests that load engines."""
    return True if tiers.holds_other_tiers_only(collection_path, config) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests are never garbage: to look through them again and again takes a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    for item in items:
        tiers.give_tier(item)
    side_by_side.refuse_twins(items)
    yield
    if side_by_side.is_one_of_several():
        items.sort(key=side_by_side.turn)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> side_by_side.Scheduling:
    return side_by_side.Scheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not terminalreporter.config.getoption("collectonly"):
        terminalreporter.section("seconds by tier")
        reports = [report for of_kind in terminalreporter.stats.values() for report in of_kind]
        for tier, seconds in tiers.seconds_by_tier(reports).items():
            terminalreporter.write_line(f"{seconds:8.1f} s  {tier}")


# Property tests measure no time: machines differ, and a slow one is no failure.
hypothesis.settings.register_profile("gyre", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("gyre")


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """The test database is the one in DATABASE_URL, not `test_` + its name."""
    settings.DATABASES["default"].setdefault("TEST", {})["NAME"] = DATABASE


@pytest.fixture(scope="session")
def gyre_home() -> Path:
    """This test process's GYRE_HOME."""
    return Path(os.environ["GYRE_HOME"])


@pytest.fixture(scope="module", autouse=True)
def same_environment() -> Iterator[None]:
    """What names the servers is after each file what it was before: what outlives a file must not change it."""
    before = _named_servers()
    yield
    assert _named_servers() == before


def _named_servers() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("GYRE_", "DATABASE_", "REDIS_"))}


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """For tensors so small that threads wait for each other longer than they work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """Address of the test database for psycopg and child processes; rows are really committed."""
    return os.environ["DATABASE_URL"]
