"""What the local backend makes of a task: an image description, or a refusal by file and line (tasks.md §6)."""

from __future__ import annotations

import re
from pathlib import Path

from agents.harness.taskformat.config import EnvironmentConfig, Network
from agents.harness.taskformat.directory import COMPOSE_NAMES, ParsedTask
from agents.harness.taskformat.dockerfile import Image, read_dockerfile
from agents.harness.taskformat.problems import BadTask, Lines

_WHOLE_VARIABLE = re.compile(r"\$\{(\w+)(?::-(.*))?\}", re.DOTALL)
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}|[0-9]{1,9}")
#: Below these the sandbox shows the host's system read-only, or what belongs to it.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/dev", "/sys")
_RESERVED = ("/tests", "/logs", "/solution")


def plan(task: ParsedTask) -> Image:
    """The environment that the sandbox stands in for. Raises BadTask for what it cannot honour; never ignores it."""
    refuse = _Refusals(task)
    config = task.config
    for name in COMPOSE_NAMES:
        if (task.path / "environment" / name).is_file():
            raise BadTask(task.file("environment", name), "compose services need a container backend")
    if (task.path / "trajectory.json").is_file():
        raise BadTask(task.file("trajectory.json"), "a prior trajectory is not supported")
    if config.steps:
        raise refuse(("steps", 0), "tasks of several steps are not supported yet")
    _check_environment(config.environment, ("environment",), refuse)
    for path, network in ((("agent",), config.agent.network), (("verifier",), config.verifier.network)):
        _check_network(network, path, refuse)
    image = _image(task, config.environment, task.path / "environment", ("environment",), refuse)
    _check_verifier(task, refuse)
    for path, user in ((("agent",), config.agent.user), (("verifier",), config.verifier.user)):
        if user is not None and not _USER.fullmatch(user):
            raise refuse((*path, "user"), f"{user!r} is no user name")
    for index, artifact in enumerate(config.artifacts):
        if artifact.service != "main":
            raise refuse(("artifacts", index), f"service {artifact.service!r} needs a container backend")
    resolve_env(config.solution_env, refuse, ("solution", "env"))
    if config.environment.network.mode == "public":
        image.warnings.append(f"{task.file('task.toml')}: network_mode public: runs without a network here")
    return image


def verifier_image(task: ParsedTask) -> Image:
    """The fresh environment of a separate verifier."""
    refuse = _Refusals(task)
    own = task.path / "tests" / "Dockerfile"
    environment = task.config.verifier.environment
    if own.is_file():
        return read_dockerfile(own.read_text(), task.file("tests", "Dockerfile"))
    if environment is None:
        return _image(task, task.config.environment, task.path / "environment", ("environment",), refuse)
    return _image(task, environment, task.path / "tests", ("verifier", "environment"), refuse)


def task_env(task: ParsedTask) -> dict[str, str]:
    """The verifier's own environment variables."""
    return resolve_env(task.config.verifier.env, _Refusals(task), ("verifier", "env"))


class _Refusals:
    """Makes a BadTask that names the line of a setting."""

    def __init__(self, task: ParsedTask) -> None:
        self._task = task

    def __call__(self, path: tuple[str | int, ...], reason: str) -> BadTask:
        lines = Lines((self._task.path / "task.toml").read_text())
        name = ".".join(str(part) for part in path)
        return BadTask(self._task.file("task.toml"), f"{name}: {reason}", lines.find(path))


def _check_environment(environment: EnvironmentConfig, path: tuple[str, ...], refuse: _Refusals) -> None:
    for key, wanted, reason in (
        ("docker_image", bool(environment.docker_image), "an image needs a container backend"),
        ("os", environment.os.lower() != "linux", f"{environment.os!r} is not supported, only linux"),
        ("tpu", environment.tpu is not None, "no TPU here"),
        ("gpus", bool(environment.gpus), "the local sandbox has no GPU to give"),
        ("skills_dir", environment.skills_dir is not None, "skills are not supported"),
        ("mcp_servers", bool(environment.mcp_servers), "MCP servers are not supported"),
    ):
        if wanted:
            raise refuse((*path, key), reason)
    _check_network(environment.network, path, refuse)


def _check_network(network: Network, path: tuple[str, ...], refuse: _Refusals) -> None:
    if network.mode == "allowlist":
        raise refuse((*path, "network_mode"), "an allowlist needs a container backend")


def _image(
    task: ParsedTask, environment: EnvironmentConfig, folder: Path, path: tuple[str, ...], refuse: _Refusals
) -> Image:
    file = folder / "Dockerfile"
    image = read_dockerfile(file.read_text(), task.file(folder.name, "Dockerfile")) if file.is_file() else Image()
    for copy in image.copies:
        for source in copy.sources:
            if not any(folder.glob(source.strip("/") or ".")) and source not in (".", "./"):
                raise BadTask(task.file(folder.name, "Dockerfile"), f"COPY {source}: no such file", copy.line)
        if _inside(copy.dest, _SYSTEM):
            raise BadTask(task.file(folder.name, "Dockerfile"), f"COPY to {copy.dest}: read-only here", copy.line)
    image.env |= resolve_env(environment.env, refuse, (*path, "env"))
    image.workdir = environment.workdir or image.workdir
    if image.workdir == "/" or _inside(image.workdir, _SYSTEM + _RESERVED):
        raise refuse((*path, "workdir"), f"{image.workdir} cannot be the working directory in the local sandbox")
    return image


def _check_verifier(task: ParsedTask, refuse: _Refusals) -> None:
    verifier = task.config.verifier
    resolve_env(verifier.env, refuse, ("verifier", "env"))
    if verifier.environment is not None:
        _check_environment(verifier.environment, ("verifier", "environment"), refuse)
    if verifier.environment_mode == "separate":
        verifier_image(task)
    for index, hook in enumerate(verifier.collect):
        if hook.service != "main":
            raise refuse(("verifier", "collect", index), f"service {hook.service!r} needs a container backend")


def _inside(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def resolve_env(env: dict[str, str], refuse: _Refusals, path: tuple[str, ...]) -> dict[str, str]:
    """A whole value `${NAME:-default}` is its default: no variable of the host is passed on to tasks."""
    found = {}
    for key, value in env.items():
        match = _WHOLE_VARIABLE.fullmatch(value)
        if match and match[2] is None:
            raise refuse(
                (*path, key), f"{value} is not set: no variable of the host is passed on, and it has no default"
            )
        else:
            found[key] = match[2] if match else value
    return found
