"""Run a task's verifier on what the agent left. Every process of the agent is dead before this begins."""

from __future__ import annotations

import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path

from agents.core.outcome import Reason, Status, Verdict
from agents.harness.evaluator import rewards
from agents.harness.evaluator.artifacts import carry_over
from agents.harness.evaluator.environment import guarded, verifier_environment
from agents.harness.sandbox.base import Bind, Exit, SandboxError, SandboxSpec, User
from agents.harness.sandbox.client import SandboxServer
from agents.harness.sandbox.workspace import Workspace, read_log, read_untrusted
from agents.harness.taskformat.config import CollectHook
from agents.harness.taskformat.local import is_bundled, verifier_image
from agents.harness.worksite import Worksite

_NOTHING_CROSSED = "none of the artifacts that its separate verifier gets was left, and it gave no reward"


@dataclass(frozen=True)
class Evaluation:
    """How work is to be evaluated: the key that is trained, the time for everything together, and values that say that
    the verifier has crashed."""

    reward_key: str = "reward"
    timeout_s: float = 1_800.0
    reward_sentinels: tuple[float, ...] = ()


def evaluate(server: SandboxServer, site: Worksite, evaluation: Evaluation) -> Verdict:
    """The verdict on the work in `site`. Never raises for what a task, an agent or a sandbox did."""
    started = time.monotonic()
    try:
        verdict = _evaluate(server, site, evaluation, started + evaluation.timeout_s)
    except SandboxError as error:
        verdict = _unresolved(error.code, str(error))
    return replace(verdict, duration_s=time.monotonic() - started)


def _evaluate(server: SandboxServer, site: Worksite, evaluation: Evaluation, deadline: float) -> Verdict:
    workspace = site.workspace
    if not workspace.root.is_dir():
        return _unresolved(Reason.SANDBOX_LOST, "the file tree of the execution is gone")
    if _missing(workspace.root, site.image.workdir):
        return Verdict(Status.NO_WORK, reason=f"the working directory {site.image.workdir} is gone")
    for hook in site.task.config.verifier.collect:
        _run(server, _hook_spec(site, hook), min(deadline, time.monotonic() + hook.timeout_s))
    nothing_crossed = False
    if site.task.config.verifier.environment_mode == "separate":
        spec = _separate(server, site, deadline)
        nothing_crossed = _nothing_crossed(site)
    else:
        workspace.upload_tests(site.task.path / "tests")
        workspace.set_aside_configuration()
        user = site.user(site.task.config.verifier.user)
        env = verifier_environment(site.image.env, site.verifier_env, user, shared=True)
        spec = _verifier_spec(site, workspace.root, workspace.verifier_binds(user), env, user, site.image.workdir)
        spec = replace(spec, command=guarded(spec.command, workspace.may_hold_repository(spec.workdir)))
    limit = min(deadline, time.monotonic() + site.task.config.verifier.timeout_s)
    end = _run(server, spec, limit)
    log = read_log(spec.log)
    if end is None:
        return _unresolved(Reason.EVALUATION_TIMEOUT, "the verifier did not end in its time", log=log)
    if end.cause != "exited":
        return _unresolved(Reason.EVALUATOR_CRASHED, f"the verifier was stopped: {end.cause} limit", end.code, log)
    verdict = _verdict(workspace, evaluation, end, log)
    if nothing_crossed and verdict.reason_code is Reason.REWARD_MISSING:
        return replace(verdict, status=Status.NO_WORK, reason_code=None, reason=_NOTHING_CROSSED)
    return verdict


def _verdict(workspace: Workspace, evaluation: Evaluation, end: Exit, log: str) -> Verdict:
    folder = workspace.verifier_logs
    reward_json = read_untrusted(folder / "reward.json", rewards.MAX_BYTES)
    reward_txt = read_untrusted(folder / "reward.txt", rewards.MAX_BYTES)
    score = rewards.read(reward_json, reward_txt, evaluation.reward_key)
    score = rewards.without_sentinels(score, evaluation.reward_sentinels)
    if score.value is None:
        reason = f"{score.reason}; it ended with exit code {end.code}" if end.code else score.reason
        verdict = _unresolved(score.reason_code or Reason.REWARD_INVALID, reason, end.code, log)
        return replace(verdict, rewards=score.rewards)
    flags = ("verifier_exit_nonzero",) if end.code else ()
    return Verdict(Status.SCORED, score.value, rewards=score.rewards, flags=flags, exit_code=end.code, log=log)


def _separate(server: SandboxServer, site: Worksite, deadline: float) -> SandboxSpec:
    """A fresh environment; only artifacts cross."""
    workspace, task = site.workspace, site.task
    image = verifier_image(task)
    bundled = is_bundled(task)
    user = site.user(task.config.verifier.user or image.user)
    transfer = workspace.transfer_folder()
    carry_over_from = site.command_spec((), site.user(None), workspace.path / "collect.log")
    workspace.upload_tests(task.path / "tests")
    context = task.path / ("tests" if bundled or task.config.verifier.environment else "environment")
    root = workspace.fresh_root(image, context, user)
    binds = workspace.separate_binds(user, with_tests=not bundled)
    env = verifier_environment(image.env, site.verifier_env, user, shared=False, has_tests=not bundled)
    spec = _verifier_spec(site, root, binds, env, user, image.workdir)
    unpacked = replace(spec, log=workspace.path / "collect.log", binds=workspace.unpacking_binds(user))
    carry_over(
        site.task.config.artifacts,
        collect=replace(carry_over_from, binds=(*carry_over_from.binds, Bind(transfer, "/tests", writable=True))),
        unpack=replace(unpacked, binds=(*unpacked.binds, Bind(transfer, "/run/gyre"))),
        run=lambda each: _run(server, each, deadline),
    )
    return replace(spec, command=guarded(spec.command, may_hold_repository=True))


def _nothing_crossed(site: Worksite) -> bool:
    """Whether the task declares artifacts and the agent left none of them, nor anything in /logs/artifacts."""
    declared = len(site.task.config.artifacts)
    crossed = {path.name for path in (site.workspace.path / "transfer").iterdir()}
    if not declared or crossed & {f"{index}.tar" for index in range(declared)}:
        return False
    try:
        return not any((site.workspace.path / "logs" / "artifacts").iterdir())
    except OSError:  # the agent made it unreadable: something may be in there
        return False


def _hook_spec(site: Worksite, hook: CollectHook) -> SandboxSpec:
    """It prepares what is judged, and so trusts the agent's files no more than the verifier does."""
    user = site.user(hook.user)
    env = verifier_environment(site.image.env, {}, user, shared=True)
    log = site.workspace.path / "collect.log"
    command = guarded(("/bin/bash", "-c", hook.command), site.workspace.may_hold_repository(site.image.workdir))
    spec = site.command_spec(command, user, log, env)
    return replace(spec, binds=site.workspace.hook_binds(user))


def _verifier_spec(
    site: Worksite, root: Path, binds: tuple[Bind, ...], env: dict[str, str], user: User, workdir: str
) -> SandboxSpec:
    return SandboxSpec(
        area=site.workspace.area,
        root=root,
        log=site.workspace.verifier_logs / "test-stdout.txt",
        command=("/tests/test.sh",),
        binds=binds,
        env=env,
        workdir=workdir,
        user=user,
        limits=site.limits,
    )


def _run(server: SandboxServer, spec: SandboxSpec, deadline: float) -> Exit | None:
    return server.run(spec, deadline - time.monotonic())


def _missing(root: Path, workdir: str) -> bool:
    """Whether a path inside is gone. Links count as present: the host does not follow them."""
    place = root
    for part in workdir.strip("/").split("/"):
        place /= part
        try:
            found = place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # the agent made it unreadable
            return False
        if stat.S_ISLNK(found.st_mode):
            return False
    return False


def _unresolved(code: Reason, reason: str, exit_code: int | None = None, log: str = "") -> Verdict:
    return Verdict(Status.UNRESOLVED, reason_code=code, reason=reason, exit_code=exit_code, log=log)
