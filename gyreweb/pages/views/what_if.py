"""What-if: what other settings would do to this run, simulated from its own recording, and applied where it can be."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents.actions.errors import NotFound, Refused
from agents.web import access
from gyreweb.pages import fragments, what_if_form
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.shell import must_operate, page, show, viewer_of
from scheduler.simulator.actions.apply_what_if import apply_what_if, preview_what_if
from scheduler.simulator.actions.end_what_if import cancel_what_if, resume_what_if
from scheduler.simulator.actions.start_what_if import start_what_if
from scheduler.simulator.web import what_ifs
from scheduler.simulator.whatif.question import describe
from scheduler.simulator.whatif.reading import present
from scheduler.web.decisions import typeset

ACTS = {"cancel": cancel_what_if, "resume": resume_what_if}


@page
@require_http_methods(["GET", "POST"])
def what_if(request: HttpRequest, run_id: int) -> HttpResponse:
    """The form with the present values, and the answer of `?ask=`; POST asks."""
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    now = present(facts.run)
    if request.method == "POST":
        must_operate(viewer_of(request))
        form = what_if_form.form_of(now, request.POST)
        if form.question is None:
            return _page(request, facts, now, form, None, status=422)
        try:
            row = start_what_if(facts.run, form.question, user=viewer_of(request).user)
        except Refused as error:
            messages.error(request, str(error))
            return _page(request, facts, now, form, None, status=409)
        return redirect(reverse("what_if", args=[run_id]) + f"?ask={row.pk}")
    asked = request.GET.get("ask", "")
    try:
        shown = what_ifs.what_if_of(facts.run, int(asked) if asked.isdecimal() and len(asked) < 16 else None)
    except NotFound:
        if asked:
            raise
        shown = None
    return _page(
        request, facts, now, what_if_form.form_of(now, None, shown.question if shown is not None else None), shown
    )


def _page(
    request: HttpRequest, facts: RunFacts, now: Any, form: what_if_form.Form, shown: what_ifs.Shown | None,
    status: int = 200,
) -> HttpResponse:  # fmt: skip
    context = fragments.page_context(facts, "what_if") | {
        "now": now,
        "form": form,
        "before": what_ifs.what_ifs_of(facts.run),
        "api_path": f"/api/v1/runs/{facts.run.pk}/what-if",
    }
    context |= _answer(request, shown) if shown is not None else {}
    return show(request, "pages/what_if.html", context, run=facts.run, section="what_if", status=status)


def _answer(request: HttpRequest, shown: what_ifs.Shown) -> dict[str, Any]:
    asked = {
        "span": shown.question.span, "seeds": shown.question.seeds,
        "settings": {name: list(values) for name, values in shown.question.values.items()},
    } | ({"hours": shown.question.hours} if shown.question.span == "hours" else {})  # fmt: skip
    return {
        "shown": shown,
        "rows": what_if_form.rows_of(shown),
        "chart": what_if_form.chart_of(shown),
        "chart_id": f"what-if-chart-{shown.row.pk}",
        "expiries": what_if_form.EXPIRIES,
        "live": shown.row.run.state in shown.row.run.LIVE_STATES,
        "share": round(100 * shown.row.num_done / max(1, shown.row.num_to_do)),
        "asked_json": json.dumps(asked),
    }


@page
@require_POST
def check(request: HttpRequest, run_id: int) -> HttpResponse:
    """Validate while one types: the form again, with what is wrong beside each field."""
    run = access.run_for(viewer_of(request), run_id)
    now = present(run)
    context = {"form": what_if_form.form_of(now, request.POST), "now": now}
    return show(request, "pages/_what_if_fields.html", context, run=run, section="what_if")


@page
@require_GET
def result(request: HttpRequest, run_id: int, what_if_id: int) -> HttpResponse:
    """The answer so far; the page asks again while it is worked on."""
    run = access.run_for(viewer_of(request), run_id)
    context = _answer(request, what_ifs.what_if_of(run, what_if_id))
    return show(request, "pages/_what_if_result.html", context, run=run, section="what_if")


@page
@require_POST
def act(request: HttpRequest, run_id: int, what_if_id: int, name: str) -> HttpResponse:
    """Cancel it, or have it go on."""
    run = access.run_for(viewer_of(request), run_id)
    shown = what_ifs.what_if_of(run, what_if_id)
    must_operate(viewer_of(request))
    try:
        ACTS[name](shown.row)
    except Refused as error:
        messages.error(request, str(error))
    return redirect(reverse("what_if", args=[run_id]) + f"?ask={what_if_id}")


@page
@require_GET
def preview(request: HttpRequest, run_id: int, what_if_id: int, number: int) -> HttpResponse:
    """What `decide` says now, and what it would say with the point's settings in force."""
    run = access.run_for(viewer_of(request), run_id)
    point = what_ifs.point_of(run, what_if_id, number)
    context: dict[str, Any] = {}
    try:
        found = preview_what_if(point)
    except Refused as error:
        context["refused"] = str(error)
    else:
        without = [(d.accepted, typeset(d.reason)) for d in found.without]
        with_it = [(d.accepted, typeset(d.reason)) for d in found.with_it]
        context |= {
            "gone": [line for line in without if line not in with_it],
            "new": [line for line in with_it if line not in without],
            "num_same": sum(line in without for line in with_it),
        }
    return show(request, "pages/_what_if_preview.html", context, run=run, section="what_if")


@page
@require_POST
def apply(request: HttpRequest, run_id: int, what_if_id: int, number: int) -> HttpResponse:
    """One override per changed setting, all or none."""
    viewer = viewer_of(request)
    run = access.run_for(viewer, run_id)
    point = what_ifs.point_of(run, what_if_id, number)
    must_operate(viewer)
    raw = request.POST.get("expires_in_s", "")
    known = {str(seconds) for seconds, _ in what_if_form.EXPIRIES}
    try:
        if raw not in known:
            raise Refused("say how long it holds")
        expires_at = timezone.now() + timedelta(seconds=int(raw))
        apply_what_if(point, user=viewer.user, reason=request.POST.get("reason", ""), expires_at=expires_at)
    except Refused as error:
        messages.error(request, f"Nothing was applied: {error}")
    else:
        messages.success(request, f"In force until {expires_at:%d %b %H:%M}: {describe(point.changes)}.")
    return redirect(reverse("what_if", args=[run_id]) + f"?ask={what_if_id}")
