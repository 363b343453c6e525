"""The viewer, and what they may see and do. Projects isolate runs: what lies outside is not found, not forbidden."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import QuerySet

from agents.actions.errors import NotFound
from agents.models import ApiToken, Execution, Project, Run

_Scope = ApiToken.Scope
#: Scopes as plain text, as tokens hold them.
READ, LAUNCH, OPERATE, ADMIN = map(str, (_Scope.READ, _Scope.LAUNCH, _Scope.OPERATE, _Scope.ADMIN))
ALL_SCOPES = frozenset(_Scope.values)


@dataclass(frozen=True)
class Viewer:
    """A person with a session, or a machine with a token. `project_ids` None means every project."""

    user: AbstractBaseUser | None
    project_ids: frozenset[int] | None
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        return scope in self.scopes or ADMIN in self.scopes

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
    scopes = {READ}
    if user.has_perm("agents.add_run"):
        scopes.add(LAUNCH)
    if user.has_perm("agents.change_run"):
        scopes.add(OPERATE)
    return Viewer(user, frozenset(user.projects.values_list("pk", flat=True)), frozenset(scopes))


def viewer_of_token(token: ApiToken) -> Viewer:
    """A token reaches no further than the person who answers for it does now: its project while they are a member, and
    of its scopes those that they have themselves."""
    maker = viewer_of_user(token.created_by)
    within = maker.project_ids is None or token.project_id in maker.project_ids
    if not within:
        return NOBODY
    own = Viewer(maker.user, frozenset({token.project_id}), frozenset(map(str, token.scopes)))
    return replace(own, scopes=frozenset(scope for scope in ALL_SCOPES if own.may(scope) and maker.may(scope)))


def viewer_again(viewer: Viewer) -> Viewer:
    """The same person as they are now: memberships, permissions and the account itself may have ended."""
    user = get_user_model().objects.filter(pk=viewer.user.pk).first() if viewer.user is not None else None
    return NOBODY if user is None else viewer_of_user(user)


def may_enter(user: AbstractBaseUser, project: Project) -> bool:
    """Whether a person may act in a project at all."""
    ids = viewer_of_user(user).project_ids
    return ids is None or project.pk in ids


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
