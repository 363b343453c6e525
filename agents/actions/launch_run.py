"""Launch a run: settings and task set are checked first; nothing exists unless everything fits."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction

from agents import events, whole_config
from agents.actions.errors import Refused
from agents.actions.import_task_set import BadTaskSet, import_task_set
from agents.config import CONFIG_VERSION, AgentSettings, BadConfig
from agents.core import plain_text
from agents.models import Project, Run, Task, TaskSet
from agents.web import access

DEFAULT_PROJECT = "default"
MAX_NAME = 120
POLICY_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def default_project() -> Project:
    """Where commands on this machine, and people who see every project, put what names no project."""
    return Project.objects.get_or_create(slug=DEFAULT_PROJECT, defaults={"name": "Default"})[0]


def launch_run(
    *,
    project: Project,
    user: AbstractBaseUser | None,
    preset: str | None = None,
    settings: dict[str, Any] | None = None,
    name: str = "",
    idempotency_key: str = "",
) -> Run:
    """Create a queued run; the scheduler starts it when the machine is free.

    `settings` change the preset's (or, without a preset, the cluster defaults). The same `idempotency_key` in the
    same project returns the run that it made before. Raises BadConfig with the fields that are wrong, and Refused for a
    user who is no member of the project.
    """
    if user is not None and not access.may_enter(user, project):
        raise Refused(f"{user.get_username()} is not a member of project {project.slug}; an administrator can add them")
    if idempotency_key and (earlier := _earlier(project, idempotency_key)):
        return earlier
    if why := plain_text.problem(name):
        raise BadConfig({"name": f"it {why}"})
    if len(name) > MAX_NAME:
        raise BadConfig({"name": f"it has {len(name)} characters; at most {MAX_NAME} are kept"})
    config = whole_config.preset(preset, settings or {}) if preset else whole_config.parse(settings or {})
    try:
        task_set = import_task_set(config.task_set)
    except BadTaskSet as error:
        raise BadConfig({"task_set": str(error)}) from error
    if "eval_tasks" not in (settings or {}):
        config = config.model_copy(update={"eval_tasks": min(config.eval_tasks, _num_heldout(task_set))})
    _check_tasks(task_set, config)
    _check_policy(config)
    _check_fit(config)
    complete = config.model_dump(mode="json")
    try:
        with transaction.atomic():
            run = Run.objects.create(
                project=project,
                task_set=task_set,
                name=name or preset or config.task_set[-MAX_NAME:],
                preset=preset or "",
                config=complete,
                config_version=CONFIG_VERSION,
                seed=config.seed,
                policy_kind=complete["policy_kind"],
                idempotency_key=idempotency_key,
                created_by=user,
            )
            events.record(run.pk, events.EventKind.RUN_CREATED, {"name": run.name, "preset": run.preset})
    except IntegrityError:
        if idempotency_key and (earlier := _earlier(project, idempotency_key)):
            return earlier
        raise
    return run


def _earlier(project: Project, key: str) -> Run | None:
    return Run.objects.filter(project=project, idempotency_key=key).first()


def _check_policy(config: AgentSettings) -> None:
    """A folder of one's own must have what proxy, engine and trainer load."""
    if not config.policy_path:
        return
    folder = Path(config.policy_path)
    if not folder.is_dir():
        raise BadConfig({"policy_path": f"{folder} is not a folder on this machine"})
    if absent := [name for name in POLICY_FILES if not (folder / name).is_file()]:
        raise BadConfig({"policy_path": f"{folder} lacks {', '.join(absent)}"})


def _num_heldout(task_set: TaskSet) -> int:
    return task_set.tasks.filter(split=Task.Split.HELDOUT).count()


def _check_fit(config: AgentSettings) -> None:
    """What the harness sends must be sayable in the policy's chat template."""
    # Templates and tokenizers are loaded by those who launch, not by every command that could.
    from agents.proxy.families import BadPolicyFolder
    from agents.proxy.session import policy_folder
    from agents.proxy.traffic.fitting import fit

    try:
        found = fit(config.harness, policy_folder(config))
    except (BadPolicyFolder, OSError) as error:
        raise BadConfig({"policy_path": f"this policy cannot be rendered: {error}"}) from error
    if found is not None and found.problem:
        raise BadConfig({"harness": found.problem})


def _check_tasks(task_set: TaskSet, config: AgentSettings) -> None:
    """Training tasks must exist, and as many held-out ones as an evaluation takes."""
    problems = {}
    if not task_set.tasks.filter(split=Task.Split.TRAIN).exists():
        problems["task_set"] = f"{task_set.name!r} has no training tasks"
    num_heldout = _num_heldout(task_set)
    if config.eval_every_steps and config.eval_tasks > num_heldout:
        problems["eval_tasks"] = f"{config.eval_tasks} asked, but task set {task_set.name!r} holds out {num_heldout}"
    if problems:
        raise BadConfig(problems)
