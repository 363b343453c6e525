"""What the local backend makes of a task: an image description, or a refusal by file and line (docs/tasks.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from agents.harness.taskformat import paths
from agents.harness.taskformat.config import EnvironmentConfig, Network
from agents.harness.taskformat.context import BuildContext, Placed
from agents.harness.taskformat.directory import COMPOSE_NAMES, ParsedTask
from agents.harness.taskformat.dockerfile import PATH, Copy, Image, load_dockerfile
from agents.harness.taskformat.problems import BadTask, Lines, place
from agents.harness.taskformat.scripts import check_interpreter, first_line

_WHOLE_VARIABLE = re.compile(r"\$\{(\w+)(?::-(.*))?\}", re.DOTALL)
#: Of a fresh file tree, whatever a task copies into it.
FOLDERS = ("/tmp", "/var/tmp", "/run/gyre", "/root", "/opt", "/srv", "/mnt", "/home", "/etc")
#: A program of the verifier loads code from where these lead.
_LEADS_TO_CODE = ("PYTHONPATH", "PYTHONHOME", "PERL5LIB", "RUBYLIB", "NODE_PATH", "LD_LIBRARY_PATH", "CLASSPATH")


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
    environment = _Environment(task, "environment", config.environment, ("environment",))
    image = environment.image
    _check_verifier(task, environment)
    for path, user in ((("agent",), config.agent.user), (("verifier",), config.verifier.user)):
        _check_user(user, (*path, "user"), refuse)
    for index, artifact in enumerate(config.artifacts):
        if artifact.service != "main":
            raise refuse(("artifacts", index), f"service {artifact.service!r} needs a container backend")
        reason = paths.why_no_path(artifact.source)
        if reason or paths.inside(artifact.source) == "/":
            raise refuse(("artifacts", index, "source"), reason or "must not be all that there is")
    resolve_env(config.solution_env, refuse, ("solution", "env"))
    if config.environment.network.mode == "public":
        image.warnings.append(f"{task.file('task.toml')}: network_mode public: runs without a network here")
    return image


def verifier_image(task: ParsedTask) -> Image:
    """The fresh environment of a separate verifier."""
    return _verifier_environment(task).image


def _verifier_environment(task: ParsedTask) -> _Environment:
    environment = task.config.verifier.environment
    if is_bundled(task) or environment is not None:
        settings = environment or EnvironmentConfig()
        return _Environment(task, "tests", settings, ("verifier", "environment"), is_bundled(task))
    return _Environment(task, "environment", task.config.environment, ("environment",))


def is_bundled(task: ParsedTask) -> bool:
    """Whether the image of a separate verifier brings the tests with it."""
    return task.config.verifier.environment_mode == "separate" and (task.path / "tests" / "Dockerfile").is_file()


def task_env(task: ParsedTask) -> dict[str, str]:
    """The verifier's own environment variables."""
    return resolve_env(task.config.verifier.env, _Refusals(task), ("verifier", "env"))


class _Refusals:
    """Makes a BadTask that names the line of a setting."""

    def __init__(self, task: ParsedTask) -> None:
        self._task = task

    def __call__(self, path: tuple[str | int, ...], reason: str) -> BadTask:
        lines = Lines((self._task.path / "task.toml").read_text(encoding="utf-8-sig"))
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


class _Environment:
    """An image, checked file by file, and which file it has from where. `bundled`: it brings /tests with it."""

    def __init__(
        self,
        task: ParsedTask,
        folder: str,
        settings: EnvironmentConfig,
        path: tuple[str, ...],
        bundled: bool = False,
    ) -> None:
        self._refuse = _Refusals(task)
        self._shown = task.file(folder, "Dockerfile")
        self._hidden = ("/logs",) if bundled else paths.RESERVED
        file = task.path / folder / "Dockerfile"
        self.image = image = load_dockerfile(file, self._shown) if file.is_file() else Image()
        image.env |= resolve_env(settings.env, self._refuse, (*path, "env"))
        image.workdir = settings.workdir or image.workdir
        if paths.is_below(image.workdir, paths.SYSTEM + self._hidden) or (image.workdir == "/" and not bundled):
            raise self._refuse(
                (*path, "workdir"), f"{image.workdir} cannot be the working directory in the local sandbox"
            )
        self.files: dict[str, tuple[Placed, Copy]] = {}
        self._folders = {"/", *FOLDERS}
        self._note(image.workdir, is_dir=True)
        context = BuildContext(task.path / folder, task.file(folder))
        for copy in image.copies:
            self._take(copy, context)

    def has(self, path: str) -> bool:
        return path in self.files

    def _take(self, copy: Copy, context: BuildContext) -> None:
        for pattern in copy.sources:
            if not context.sources(pattern, copy.line):
                self.image.warnings.append(f"{place(self._shown, copy.line)}: COPY {pattern}: matches no file")
        for placed in context.placed(copy, copy.dest.rstrip("/") in self._folders):
            if paths.is_below(placed.dest, paths.SYSTEM):
                raise BadTask(self._shown, f"COPY to {placed.dest}: read-only here", copy.line)
            if paths.is_below(placed.dest, self._hidden):
                raise BadTask(self._shown, f"COPY to {placed.dest}: Gyre's own directory stands there", copy.line)
            if reason := paths.why_no_path(placed.dest):
                raise BadTask(self._shown, f"COPY to {placed.dest[:80]}: {reason}", copy.line)
            is_dir = placed.path is not None and placed.path.is_dir() and not placed.path.is_symlink()
            if placed.dest in (self.files if is_dir else self._folders) or self._is_below_a_file(placed.dest):
                raise BadTask(self._shown, f"COPY to {placed.dest}: a file in place of a directory", copy.line)
            self._note(placed.dest, is_dir)
            if not is_dir:
                self.files[placed.dest] = (placed, copy)

    def _is_below_a_file(self, path: str) -> bool:
        while (path := os.path.dirname(path)) != "/":
            above = self.files.get(path)
            if above and not (above[0].path and above[0].path.is_symlink()):
                return True
        return False

    def _note(self, path: str, is_dir: bool) -> None:
        folder = path if is_dir else os.path.dirname(path)
        while folder not in self._folders:
            self._folders.add(folder)
            folder = os.path.dirname(folder)


def _check_verifier(task: ParsedTask, environment: _Environment) -> None:
    verifier, refuse = task.config.verifier, _Refusals(task)
    resolve_env(verifier.env, refuse, ("verifier", "env"))
    if verifier.environment is not None:
        _check_environment(verifier.environment, ("verifier", "environment"), refuse)
    runs_in = environment
    if verifier.environment_mode == "separate":
        runs_in = _verifier_environment(task)
    else:
        _warn_of_code(environment.image, task)
    script = task.path / "tests" / "test.sh"
    if is_bundled(task):
        script = _bundled_script(task, runs_in)
    search = (runs_in.image.env | dict(verifier.env)).get("PATH", PATH)
    shown = task.file("tests", "test.sh")
    check_interpreter(first_line(script, shown), shown, search, runs_in.has)
    for index, hook in enumerate(verifier.collect):
        if hook.service != "main":
            raise refuse(("verifier", "collect", index), f"service {hook.service!r} needs a container backend")
        _check_user(hook.user, ("verifier", "collect", index, "user"), refuse)


def _bundled_script(task: ParsedTask, environment: _Environment) -> Path:
    found, copy = environment.files.get("/tests/test.sh", (None, None))
    shown = task.file("tests", "Dockerfile")
    if found is None or copy is None or found.path is None:
        raise BadTask(shown, "copies no /tests/test.sh into the verifier's image")
    if not (copy.mode or found.path.stat().st_mode) & 0o111:
        raise BadTask(shown, "copies /tests/test.sh without an executable bit: use COPY --chmod=755", copy.line)
    return found.path


def _warn_of_code(image: Image, task: ParsedTask) -> None:
    for name in _LEADS_TO_CODE:
        if name in image.env:
            image.warnings.append(
                f"{task.file('environment')}: ENV {name} holds for the verifier too: it may load code"
                " that the agent has left there. A separate verifier does not"
            )


def _check_user(user: str | None, path: tuple[str | int, ...], refuse: _Refusals) -> None:
    if user is not None and (reason := paths.why_no_user(user)):
        raise refuse(path, reason)


def resolve_env(env: Mapping[str, str], refuse: _Refusals, path: tuple[str, ...]) -> dict[str, str]:
    """A whole value `${NAME:-default}` is its default: no variable of the host is passed on to tasks."""
    found = {}
    for key, value in env.items():
        match = _WHOLE_VARIABLE.fullmatch(value)
        if match and match[2] is None:
            raise refuse(
                (*path, key), f"{value} is not set: no variable of the host is passed on, and it has no default"
            )
        found[key] = match[2] if match else value
        if reason := paths.why_no_variable(key, found[key]):
            raise refuse(path, reason)
    return found
