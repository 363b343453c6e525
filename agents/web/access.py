"""Who looks, and what they may see and do. Projects isolate runs: what lies outside is not found, not forbidden."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import QuerySet

from agents.actions.errors import NotFound
from agents.models import ApiToken, Execution, Project, Run

READ, LAUNCH, OPERATE, ADMIN = ApiToken.Scope.READ, ApiToken.Scope.LAUNCH, ApiToken.Scope.OPERATE, ApiToken.Scope.ADMIN
ALL_SCOPES = frozenset(scope.value for scope in ApiToken.Scope)


@dataclass(frozen=True)
class Viewer:
    """A person with a session, or a machine with a token. `project_ids` None means every project."""

    user: AbstractBaseUser | None
    project_ids: frozenset[int] | None
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        return scope in self.scopes or ADMIN.value in self.scopes

    @property
    def can_launch(self) -> bool:
        return self.may(LAUNCH)

    @property
    def can_operate(self) -> bool:
        return self.may(OPERATE)


NOBODY = Viewer(None, frozenset(), frozenset())


def viewer_of_user(user: AbstractBaseUser | AnonymousUser) -> Viewer:
    """A superuser sees all. A member sees its projects, and acts as far as its `agents` permissions go."""
    if not user.is_authenticated or not user.is_active:
        return NOBODY
    if user.is_superuser:
        return Viewer(user, None, ALL_SCOPES)
    scopes = {READ.value}
    if user.has_perm("agents.add_run"):
        scopes.add(LAUNCH.value)
    if user.has_perm("agents.change_run"):
        scopes.add(OPERATE.value)
    return Viewer(user, frozenset(user.projects.values_list("pk", flat=True)), frozenset(scopes))


def viewer_of_token(token: ApiToken) -> Viewer:
    return Viewer(token.created_by, frozenset({token.project_id}), frozenset(token.scopes))


def visible_projects(viewer: Viewer) -> QuerySet[Project]:
    projects = Project.objects.order_by("pk")
    return projects if viewer.project_ids is None else projects.filter(pk__in=viewer.project_ids)


def visible_runs(viewer: Viewer) -> QuerySet[Run]:
    runs = Run.objects.all()
    return runs if viewer.project_ids is None else runs.filter(project_id__in=viewer.project_ids)


def visible_executions(viewer: Viewer) -> QuerySet[Execution]:
    executions = Execution.objects.all()
    return executions if viewer.project_ids is None else executions.filter(run__project_id__in=viewer.project_ids)


def live_runs(viewer: Viewer) -> QuerySet[Run]:
    """Runs that can still go on, newest first."""
    return visible_runs(viewer).filter(state__in=Run.LIVE_STATES).order_by("-pk")


def run_for(viewer: Viewer, run_id: int) -> Run:
    """Raises NotFound for a run that does not exist or that the viewer cannot see."""
    run = visible_runs(viewer).select_related("project", "task_set").filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"run {run_id} does not exist")
    return run


def execution_for(viewer: Viewer, execution_id: int) -> Execution:
    execution = (
        visible_executions(viewer)
        .select_related("run", "run__project", "run__task_set", "group", "group__task")
        .filter(pk=execution_id)
        .first()
    )
    if execution is None:
        raise NotFound(f"execution {execution_id} does not exist")
    return execution
