"""What every page shares: viewer, run, theme, navigation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from agents.actions.errors import NotFound
from agents.web import access
from agents.web.access import Viewer
from agents.web.runs import state_counts

THEMES = ("auto", "light", "dark")
TABS = (
    ("run", "Overview"), ("executions", "Executions"), ("groups", "Groups"), ("cells", "Cells"),
    ("decisions", "Decisions"), ("batches", "Batches"), ("what_if", "What-if"), ("report", "Report"),
    ("config", "Config"),
)  # fmt: skip


def theme_of(request: HttpRequest) -> str:
    theme = request.COOKIES.get("theme", "auto")
    return theme if theme in THEMES else "auto"


def page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For people who are signed in. What they may not see does not exist for them."""

    @login_required
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        request.viewer = access.viewer_of_user(request.user)
        try:
            return view(request, *args, **kwargs)
        except NotFound as error:
            raise Http404(str(error)) from error

    return shown


def viewer_of(request: HttpRequest) -> Viewer:
    found: Viewer = request.viewer
    return found


def must_operate(viewer: Viewer) -> None:
    """Raises PermissionDenied to who may only look."""
    if not viewer.can_operate:
        raise PermissionDenied("This needs the permission to operate runs.")


def show(
    request: HttpRequest, template: str, context: dict[str, Any], *, run: Any = None, section: str = "runs",
    status: int = 200,
) -> HttpResponse:  # fmt: skip
    """Render a page. `section` is the navigation entry that is highlighted."""
    viewer = viewer_of(request)
    shared = {
        "viewer": viewer,
        "theme": theme_of(request),
        "themes": THEMES,
        "section": section,
        "nav_counts": context.get("counts") or state_counts(access.visible_runs(viewer)),
        "run": run,
        "tabs": TABS if run is not None else (),
    }
    return render(request, template, shared | context, status=status)
