"""From the text of a task.toml to a TaskConfig, legacy forms included (docs/tasks.md)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from agents.harness.taskformat import config as c
from agents.harness.taskformat import paths
from agents.harness.taskformat.problems import BadTask, Lines
from agents.harness.taskformat.reader import LARGEST, Path, Source, Table

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMG])B?\s*$", re.IGNORECASE)
_MB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}
_STEP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,119}")
_LABEL = re.compile(r"[^/\s]+/[^/\s]+")


def parse_config(text: str, file: str = "task.toml") -> tuple[c.TaskConfig, list[str]]:
    """The settings and warnings about them. Raises BadTask with file, line and reason."""
    try:
        values = tomllib.loads(text)
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise BadTask(file, f"not TOML: {error}", int(line[1]) if line else None) from error
    except RecursionError as error:
        raise BadTask(file, "not TOML: nested too deeply") from error
    source = Source(file, Lines(text))
    for path, value in _leaves(values, ()):
        if any("\0" in part for part in (*path, value) if isinstance(part, str)):
            raise source.bad(path, "contains a NUL")
    return _task(Table(source, values)), source.warnings


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every value that is no table and no list, and where it stands."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, (*path, key))
    else:
        yield path, value


def _task(root: Table) -> c.TaskConfig:
    version = root.text_or_none("schema_version")
    alias = root.text_or_none("version")
    steps = tuple(_step(table) for table in root.tables("steps"))
    names = [step.name.casefold() for step in steps]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise root.source.bad(("steps", index, "name"), f"{steps[index].name!r} is used twice")
    return c.TaskConfig(
        schema_version=version or alias or c.DEFAULT_SCHEMA_VERSION,
        source=root.text_or_none("source"),
        task=_info(root.table("task")) if root.has("task") else None,
        metadata=root.free("metadata"),
        agent=_agent(root.table("agent")),
        verifier=_verifier(root.table("verifier")),
        environment=_environment(root.table("environment")),
        solution_env=_solution_env(root.table("solution")),
        artifacts=_artifacts(root),
        multi_step_reward_strategy=root.choice("multi_step_reward_strategy", ("mean", "final"), "mean"),
        steps=steps,
        extra=root.rest(),
    )


def _info(table: Table) -> c.TaskInfo:
    if not table.has("name"):
        raise table.bad("name", "is required in [task], as org/name")
    name = table.text("name")
    if not _LABEL.fullmatch(name):
        raise table.bad("name", f"must be org/name, not {name!r}")
    return c.TaskInfo(
        name=name,
        version=table.text_or_none("version"),
        description=table.text("description"),
        authors=tuple(row for _, row in table.items("authors")),
        keywords=table.texts("keywords"),
        extra=table.rest(),
    )


def _solution_env(table: Table) -> dict[str, str]:
    env = table.env("env")
    table.rest()
    return env


def _agent(table: Table) -> c.AgentConfig:
    return c.AgentConfig(
        timeout_s=table.number_or_none("timeout_sec"),
        user=_user(table),
        network=_network(table, None),
        extra=table.rest(),
    )


def _user(table: Table) -> str | None:
    value = table.take("user", "a name or a number", lambda v: isinstance(v, str | int) and v is not True, None)
    return None if value is None else str(value)


def _network(table: Table, default: c.NetworkMode | None) -> c.Network:
    internet = table.flag("allow_internet")
    if internet is not None:
        default = "public" if internet else "no-network"
    mode = table.choice("network_mode", c.NETWORK_MODES, default)
    listed = table.has("allowed_hosts")
    hosts = table.texts("allowed_hosts")
    if listed and hosts and mode != "allowlist":
        raise table.bad("allowed_hosts", "only goes with network_mode = 'allowlist'")
    return c.Network(mode, hosts)


def _environment(table: Table) -> c.EnvironmentConfig:
    return c.EnvironmentConfig(
        build_timeout_s=table.number("build_timeout_sec", 600.0),
        docker_image=table.text_or_none("docker_image"),
        os=table.text("os", "linux"),
        cpus=table.whole("cpus"),
        memory_mb=_megabytes(table, "memory_mb", "memory"),
        storage_mb=_megabytes(table, "storage_mb", "storage"),
        gpus=table.whole("gpus"),
        gpu_types=table.texts("gpu_types"),
        tpu=table.take("tpu", "anything", lambda v: True, None),
        network=_network(table, "public"),
        env=table.env("env"),
        workdir=_workdir(table),
        skills_dir=table.text_or_none("skills_dir"),
        mcp_servers=tuple(row for _, row in table.items("mcp_servers")),
        healthcheck=_healthcheck(table.table("healthcheck")) if table.has("healthcheck") else None,
        extra=table.rest(),
    )


def _workdir(table: Table) -> str | None:
    workdir = table.text_or_none("workdir")
    if workdir is None:
        return None
    if not workdir.startswith("/"):
        raise table.bad("workdir", f"must be an absolute path, not {workdir!r:.80}")
    if ".." in workdir.split("/"):
        raise table.bad("workdir", f"must not contain '..': {workdir!r:.80}")
    if reason := paths.why_no_path(workdir):
        raise table.bad("workdir", f"{workdir[:80]!r} {reason}")
    return paths.inside(workdir)


def _megabytes(table: Table, key: str, legacy: str) -> int | None:
    old = table.text_or_none(legacy)
    value = table.whole(key)
    if value is not None or old is None:
        return value
    match = _SIZE.match(old)
    if not match:
        raise table.bad(legacy, f"must be a size such as '4G' or '512M', not {old!r}")
    size = float(match[1]) * _MB[match[2].upper()]
    if size > LARGEST:
        raise table.bad(legacy, f"must be at most {LARGEST:,} MB, not {old!r:.80}")
    return max(1, int(size))


def _healthcheck(table: Table) -> c.Healthcheck:
    if not table.has("command"):
        raise table.bad("command", "is required in a healthcheck")
    check = c.Healthcheck(
        command=table.text("command"),
        interval_s=table.number("interval_sec", 5.0),
        timeout_s=table.number("timeout_sec", 30.0),
        start_period_s=table.number("start_period_sec", 0.0),
        start_interval_s=table.number("start_interval_sec", 5.0),
        retries=table.whole("retries", 3) or 0,
    )
    table.rest()
    return check


def _verifier(table: Table) -> c.VerifierConfig:
    has_environment = table.has("environment")
    mode = table.choice("environment_mode", ("shared", "separate"), None)
    if mode == "shared" and has_environment:
        raise table.bad("environment_mode", "is 'shared', but [verifier.environment] describes a separate one")
    environment = _environment(table.table("environment")) if has_environment else None
    return c.VerifierConfig(
        timeout_s=table.number_or_none("timeout_sec") or 600.0,
        env=table.env("env"),
        user=_user(table),
        network=_network(table, None),
        environment_mode="separate" if mode == "separate" or has_environment else "shared",
        environment=environment,
        collect=tuple(_collect(row) for row in table.tables("collect")),
        extra=table.rest(),
    )


def _collect(table: Table) -> c.CollectHook:
    if not table.has("command"):
        raise table.bad("command", "is required in a collect hook")
    hook = c.CollectHook(
        command=table.text("command"),
        service=table.text("service", "main"),
        timeout_s=table.number("timeout_sec", 60.0),
        user=_user(table),
    )
    table.rest()
    return hook


def _artifacts(table: Table) -> tuple[c.Artifact, ...]:
    return tuple(_artifact(table.source, path, row) for path, row in table.items("artifacts"))


def _artifact(source: Source, path: Path, row: Any) -> c.Artifact:
    if isinstance(row, str):
        row = {"source": row}
    if not isinstance(row, dict):
        raise source.bad(path, f"must be a path or a table with 'source', not {row!r:.80}")
    table = Table(source, row, path)
    if not table.has("source"):
        raise table.bad("source", "is required in an artifact")
    artifact = c.Artifact(
        source=table.text("source"),
        destination=table.text_or_none("destination"),
        exclude=table.texts("exclude"),
        service=table.text("service", "main"),
    )
    for key, value in (("source", artifact.source), ("destination", artifact.destination)):
        if value is not None and ".." in value.split("/"):
            raise table.bad(key, f"must not contain '..': {value!r}")
    table.rest()
    return artifact


def _step(table: Table) -> c.StepConfig:
    name = table.text("name")
    if not _STEP_NAME.fullmatch(name):
        raise table.bad("name", f"must be a portable file name, not {name!r}")
    nothing: Any = {}
    least = table.take("min_reward", "a number or a table of numbers", _is_min_reward, nothing)
    return c.StepConfig(
        name=name,
        agent=_agent(table.table("agent")),
        verifier=_verifier(table.table("verifier")),
        min_reward={"reward": float(least)} if isinstance(least, int | float) else dict(least),
        healthcheck=_healthcheck(table.table("healthcheck")) if table.has("healthcheck") else None,
        artifacts=_artifacts(table),
        extra=table.rest(),
    )


def _is_min_reward(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_min_reward(item) and not isinstance(item, dict) for item in value.values())
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
