"""The launch form: presets, validation in place, launch."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from agents.actions.launch_run import default_project, launch_run
from agents.web import access
from gyreweb.pages import launch_form
from gyreweb.pages.shell import page, show, viewer_of
from scheduler import config as run_config


@page
def new_run(request: HttpRequest) -> HttpResponse:
    if not viewer_of(request).can_launch:
        raise PermissionDenied("This needs the permission to launch runs.")
    if viewer_of(request).project_ids == frozenset():
        raise PermissionDenied("You are in no project, so you cannot launch runs; an administrator can add you to one.")
    return (
        _launch(request) if request.method == "POST" else _form(request, preset=request.GET.get("preset", "quickstart"))
    )


@page
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """Validate while one types: the form again, with what is wrong beside each field."""
    preset = request.POST.get("preset", "")
    values = launch_form.typed(request.POST)
    return _form(request, preset=preset, values=values, problems=_problems(values), name=request.POST.get("name", ""))


@page
@require_GET
def presets(request: HttpRequest) -> HttpResponse:
    """The fields of another preset."""
    return _form(request, preset=request.GET.get("preset", ""), name=request.GET.get("name", ""))


def _problems(values: dict[str, Any]) -> dict[str, str]:
    try:
        run_config.parse(values)
    except run_config.BadConfig as error:
        return error.problems
    return {}


def _form(
    request: HttpRequest, *, preset: str, values: dict[str, Any] | None = None, problems: dict[str, str] | None = None,
    name: str = "", status: int = 200,
) -> HttpResponse:  # fmt: skip
    problems = dict(problems or {})
    try:
        usual = launch_form.usual_values(preset)
    except run_config.BadConfig as error:
        problems |= error.problems
        preset, usual = "", launch_form.usual_values("")
    shown = usual | (values or {})
    sections = launch_form.sections(shown, usual, problems)
    fields = {field.name for _, rows in sections for field in rows}
    context = {
        "preset": preset,
        "presets": run_config.preset_names(),
        "sections": sections,
        "general": [f"{key}: {why}" if key not in ("settings", "preset") else why
                    for key, why in problems.items() if key.split(".")[0] not in fields],
        "num_problems": len(problems),
        "num_changed": sum(field.changed for _, rows in sections for field in rows),
        "plan": launch_form.plan_sentence(shown),
        "name": name,
    }  # fmt: skip
    template = "pages/_launch_fields.html" if request.headers.get("HX-Request") else "pages/new_run.html"
    return show(request, template, context, section="new_run", status=status)


def _launch(request: HttpRequest) -> HttpResponse:
    viewer = viewer_of(request)
    preset, name = request.POST.get("preset", ""), request.POST.get("name", "").strip()[:120]
    values = launch_form.typed(request.POST)
    try:
        changes = launch_form.changes_to(launch_form.usual_values(preset), values)
        project = access.visible_projects(viewer).first() or default_project()
        run = launch_run(project=project, user=viewer.user, preset=preset or None, settings=changes, name=name)
    except run_config.BadConfig as error:
        return _form(request, preset=preset, values=values, problems=error.problems, name=name, status=422)
    return redirect("run", run.pk)
