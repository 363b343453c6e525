"""One attempt in its sandboxes: the task, who works on it, and where (docs/architecture.md "Life of an execution")."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from agents.core.outcome import Reason
from agents.harness.drivers.base import Assignment, Driver
from agents.harness.install import Installed
from agents.harness.sandbox.base import Limits, SandboxError, SandboxSpec, User
from agents.harness.sandbox.client import SandboxServer
from agents.harness.sandbox.workspace import Workspace
from agents.harness.taskformat import BadTask, ParsedTask, load_task
from agents.harness.taskformat.config import Healthcheck
from agents.harness.taskformat.dockerfile import PATH, Image
from agents.harness.taskformat.local import plan, task_env
from agents.harness.taskformat.paths import why_no_user

_MB = 1 << 20


@dataclass(frozen=True)
class Worksite:
    task: ParsedTask
    image: Image
    workspace: Workspace
    driver: Driver
    verifier_env: dict[str, str]

    @classmethod
    def open(cls, task_path: Path, digest: str, driver: Driver, home: Path, place: Path) -> Worksite:
        """Raises BadTask when the task's files no longer parse."""
        task, image, verifier_env = _planned(task_path, digest)
        return cls(task, image, Workspace(home, place), driver, verifier_env)

    def user(self, name: str | None) -> User:
        """Names differ inside only: on the host all sandboxes are one unprivileged identity."""
        name = name or self.image.user or "agent"
        if reason := why_no_user(name):
            raise BadTask(self.task.file("task.toml"), reason)
        if name in ("root", "0"):
            return User("root", 0)
        return User(f"user{name}", int(name)) if name.isdigit() else User(name)

    @property
    def limits(self) -> Limits:
        environment, limits = self.task.config.environment, Limits()
        if environment.memory_mb:
            limits = replace(limits, memory_bytes=environment.memory_mb * _MB)
        if environment.storage_mb:
            limits = replace(limits, disk_bytes=environment.storage_mb * _MB)
        return replace(limits, cpus=environment.cpus)

    def prepare(self, server: SandboxServer, deadline: float = math.inf) -> None:
        """Make the file tree and wait until the task's health check passes. Raises SandboxError, OSError.

        `deadline`: on the monotonic clock.
        """
        user = self.user(self.task.config.agent.user)
        self.workspace.create(self.image, self.task.path / "environment", user, self.task.instruction)
        if self.driver.name == "oracle":
            self.workspace.upload_solution(self.task.path / "solution")
        if check := self.task.config.environment.healthcheck:
            self._wait_healthy(server, check, user, deadline)

    def harness_spec(
        self,
        key: str,
        proxy_socket: Path | None,
        installed: Installed | None = None,
        context_tokens: int = 0,
        max_new_tokens: int = 0,
    ) -> SandboxSpec:
        """`context_tokens`, `max_new_tokens`: what the policy takes and gives, for harnesses that plan by it."""
        user = self.user(self.task.config.agent.user)
        assignment = Assignment(
            instruction=self.task.instruction,
            workdir=self.image.workdir,
            home=user.home,
            env=self.image.env,
            key=key,
            context_tokens=context_tokens,
            max_new_tokens=max_new_tokens,
            installed=installed,
            solution_env=self.task.config.solution_env,
        )
        launch = self.driver.launch(assignment)
        return SandboxSpec(
            area=self.workspace.area,
            root=self.workspace.root,
            log=self.workspace.agent_log,
            command=launch.command,
            program=launch.program,
            binds=(*self.workspace.agent_binds(user), *launch.binds),
            env=launch.env,
            workdir=self.image.workdir,
            user=user,
            limits=replace(self.limits, output_bytes=launch.output_bytes),
            proxy_socket=proxy_socket if self.driver.calls_model else None,
        )

    def command_spec(
        self, command: tuple[str, ...], user: User, log: Path, env: Mapping[str, str] | None = None
    ) -> SandboxSpec:
        """A command of the task's own in the agent's file tree, without a network. `env`: else the image's."""
        env = env or {"PATH": PATH, "HOME": user.home, "LANG": "C.UTF-8", "TERM": "dumb", **self.image.env}
        return SandboxSpec(
            area=self.workspace.area,
            root=self.workspace.root,
            log=log,
            command=command,
            binds=self.workspace.agent_binds(user),
            env=dict(env),
            workdir=self.image.workdir,
            user=user,
            limits=self.limits,
        )

    def _wait_healthy(self, server: SandboxServer, check: Healthcheck, user: User, deadline: float) -> None:
        started, failures = time.monotonic(), 0
        spec = self.command_spec(("/bin/bash", "-c", check.command), user, self.workspace.path / "healthcheck.log")
        while True:
            end = server.run(spec, min(check.timeout_s, max(0.0, deadline - time.monotonic())))
            if end is not None and end.code == 0:
                return
            if time.monotonic() >= deadline:
                raise SandboxError(Reason.SANDBOX_NEVER_HEALTHY, "preparation did not end within overall_timeout_s")
            in_start_period = time.monotonic() - started < check.start_period_s
            failures = 0 if in_start_period else failures + 1
            if failures >= max(1, check.retries):
                raise SandboxError(Reason.SANDBOX_NEVER_HEALTHY, f"the health check failed {failures} times in a row")
            pause_s = check.start_interval_s if in_start_period else check.interval_s
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))


@lru_cache(maxsize=1024)
def _planned(path: Path, digest: str) -> tuple[ParsedTask, Image, dict[str, str]]:
    """Parsed once for all executions of a group; `digest` is in the key, so that changed files are parsed again."""
    task = load_task(path)
    return task, plan(task), task_env(task)
