"""Overrides: order something in the scheduler's place, see what holds and what held, extend it or hand it back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from agents.actions.errors import NotFound, Refused
from agents.web import access
from gyreweb.pages import fragments, override_form
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.override_form import Form, form_of
from gyreweb.pages.shell import must_operate, page, show, viewer_of
from scheduler.actions.extend_override import extend_override
from scheduler.actions.release_override import release_override
from scheduler.actions.set_override import preview_override, set_override
from scheduler.models import Override
from scheduler.web import overrides as override_queries
from scheduler.web.decisions import difference

CHANGED = "Somebody changed the overrides of this run while you wrote. See what holds now, then send it again."


@page
@require_http_methods(["GET", "POST"])
def overrides(request: HttpRequest, run_id: int) -> HttpResponse:
    """The form, what is in force and what was; POST sets one. `?what=…&cell=…` begins with something filled in."""
    viewer = viewer_of(request)
    facts = RunFacts(access.run_for(viewer, run_id))
    if request.method != "POST":
        form = form_of(request.GET, facts.cells)
        return _page(request, facts, replace(form, problems={}))
    must_operate(viewer)
    form = form_of(request.POST, facts.cells)
    if form.problems:
        return _page(request, facts, form, status=422)
    if form.seen != override_queries.stamp(facts.overrides):
        return _page(request, facts, replace(form, problems={"general": CHANGED}), status=409)
    try:
        row = set_override(facts.run, user=viewer.user, reason=form.reason, expires_at=form.expires_at, **form.order())
    except Refused as error:
        return _page(request, facts, replace(form, problems={"general": _sentence(str(error))}), status=422)
    messages.success(
        request, _sentence(f"{override_queries.words(row, facts.config, facts.cells)}, by override {row.pk}")
    )
    return redirect("overrides", run_id)


def _page(request: HttpRequest, facts: RunFacts, form: Form, status: int = 200) -> HttpResponse:
    context = fragments.page_context(facts, "overrides") | _form_context(facts, form) | {
        "lines": override_queries.lines(facts.run, facts.config, facts.cells, facts.now),
        "expiries": override_form.EXPIRIES,
        "api_path": f"/api/v1/runs/{facts.run.pk}/overrides",
    }  # fmt: skip
    return show(request, "pages/overrides.html", context, run=facts.run, section="overrides", status=status)


def _form_context(facts: RunFacts, form: Form) -> dict[str, Any]:
    settings = override_form.live_settings(facts.config, facts.overrides)
    return {
        "form": form,
        "choices": override_form.CHOICES,
        "cells": facts.cells,
        "settings": settings,
        "chosen": next((one for one in settings if one.name == form.setting), None),
        "expiries": override_form.EXPIRIES,
        "seen": override_queries.stamp(facts.overrides),
        "live": facts.run.state in facts.run.LIVE_STATES,
        "beyond": facts.run.waterlevel,
    }


@page
@require_POST
def preview(request: HttpRequest, run_id: int) -> HttpResponse:
    """What `decide` says now, and what it would say with this override in force. Changes nothing."""
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    form = form_of(request.POST, facts.cells)
    problems = {name: why for name, why in form.problems.items() if name != "sure"}
    context: dict[str, Any] = {}
    try:
        if problems:
            context["is_incomplete"] = not (form.cell or form.number)
            raise Refused(" ".join(problems.values()))
        context["difference"] = difference(preview_override(facts.run, **form.order()))
    except Refused as error:
        context["refused"] = str(error)
    return show(request, "pages/_preview.html", context, run=facts.run, section="overrides")


@page
@require_POST
def release(request: HttpRequest, run_id: int, override_id: int) -> HttpResponse:
    row, version = _row(request, run_id, override_id)
    try:
        release_override(
            row, user=viewer_of(request).user, reason=request.POST.get("reason", "")[:500], row_version=version
        )
    except Refused as error:
        messages.error(request, _sentence(str(error)))
    else:
        messages.success(request, f"Override {override_id} is over: the scheduler decides again.")
    return redirect("overrides", run_id)


@page
@require_POST
def extend(request: HttpRequest, run_id: int, override_id: int) -> HttpResponse:
    """Let it hold for so long from now on."""
    row, version = _row(request, run_id, override_id)
    raw = request.POST.get("expires_in_s", "")
    try:
        if raw not in {str(seconds) for seconds, _ in override_form.EXPIRIES}:
            raise Refused("say how long it holds")
        expires_at = timezone.now() + timedelta(seconds=int(raw))
        extend_override(row, user=viewer_of(request).user, expires_at=expires_at, row_version=version)
    except Refused as error:
        messages.error(request, _sentence(str(error)))
    else:
        messages.success(request, f"Override {override_id} holds until {expires_at:%d %b %H:%M} UTC.")
    return redirect("overrides", run_id)


def _row(request: HttpRequest, run_id: int, override_id: int) -> tuple[Override, int | None]:
    """The override, and the version of it that the person saw."""
    viewer = viewer_of(request)
    run = access.run_for(viewer, run_id)
    must_operate(viewer)
    row = override_queries.override_of(run, override_id)
    if row is None:
        raise NotFound(f"override {override_id} does not exist")
    raw = request.POST.get("row_version", "")
    return row, int(raw) if raw.isdecimal() and len(raw) < 10 else None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
