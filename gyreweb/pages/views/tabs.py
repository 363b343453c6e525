"""The other tabs of a run: cells, decisions, batches, config."""

import tomllib
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from agents.web import access
from gyreweb.pages import fragments
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.launch_form import SECTIONS, as_text, usual_values
from gyreweb.pages.shell import page, show, viewer_of
from scheduler import config as run_config
from scheduler.web import decisions as decision_queries
from trainers.web import batches as batch_queries

#: Metrics of a step that have a chart: title and meaning.
STEP_METRICS = {
    "loss": ("Loss", "policy-gradient loss, averaged within each execution and over those with a reward"),
    "grad_norm": ("Gradient norm", "norm of the whole gradient before it is clipped"),
    "clip_fraction": ("Clipped share", "share of trained tokens whose gradient the clip or the cap removed or cut"),
    "logprob_gap": ("Log-prob gap", "mean of |trainer's − sampler's log-probability| over trained tokens"),
}


@page
@require_GET
def cells(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    context = fragments.page_context(facts, "cells")
    return show(request, "pages/cells.html", context, run=facts.run, section="cells")


@page
@require_GET
def batches(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    stepped = [batch for batch in reversed(facts.batches) if batch.state == "stepped"]
    series = {
        name: [
            [batch.number, value]
            for batch in stepped
            if (value := batch_queries.measured(batch.metrics, name)) is not None
        ]
        for name in STEP_METRICS
    }
    series = {name: points for name, points in series.items() if len(points) > 1}
    context = fragments.page_context(facts, "batches") | {
        "series": series,
        "charts": [(name, *STEP_METRICS[name], points[-1][1]) for name, points in series.items()],
        "checkpoints": batch_queries.checkpoints_of(facts.run),
    }
    return show(request, "pages/batches.html", context, run=facts.run, section="batches")


@page
@require_GET
def decisions(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    query = request.GET
    accepted = {"yes": True, "no": False}.get(query.get("accepted", ""))
    rows = decision_queries.decisions_of(
        facts.run,
        before=_number(query.get("before")),
        kind=query.get("kind", ""),
        cell_index=_number(query.get("cell")),
        accepted=accepted,
        limit=decision_queries.PAGE_SIZE + 1,
    )
    more = len(rows) > decision_queries.PAGE_SIZE
    rows = rows[: decision_queries.PAGE_SIZE]
    context = fragments.page_context(facts, "decisions") | {
        "decisions": decision_queries.sentences(rows, facts.cells),
        "next_before": rows[-1].number if more else None,
        "kinds": decision_queries.decision_kinds(facts.run),
        "kind": query.get("kind", ""),
        "cell": query.get("cell", ""),
        "accepted": query.get("accepted", ""),
        "cells": facts.cells,
        "overrides": facts.overrides,
    }
    template = "pages/_decision_rows.html" if request.headers.get("HX-Request") else "pages/decisions.html"
    return show(request, template, context, run=facts.run, section="decisions")


@page
@require_GET
def decision_inputs(request: HttpRequest, run_id: int, number: int) -> HttpResponse:
    """The snapshot that `decide` saw, as JSON."""
    run = access.run_for(viewer_of(request), run_id)
    return JsonResponse({"number": number, "snapshot": decision_queries.inputs_of(run, number)})


def _number(raw: str | None) -> int | None:
    return int(raw) if raw and raw.isdecimal() and len(raw) < 16 else None


@page
@require_GET
def config(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    usual = _usual(facts.run.preset)
    fields = run_config.RunConfig.model_fields
    rows = [
        (
            title,
            [
                {
                    "name": name,
                    "value": as_text(facts.config.get(name)),
                    "usual": as_text(usual.get(name)),
                    "changed": facts.config.get(name) != usual.get(name),
                    "help": fields[name].description or "",
                    "allowed": run_config.allowed(name),
                }
                for name in names
            ],
        )
        for title, names in SECTIONS
    ]
    context = fragments.page_context(facts, "config") | {"sections": rows, "preset": facts.run.preset}
    return show(request, "pages/config.html", context, run=facts.run, section="config")


def _usual(preset: str) -> dict[str, Any]:
    """Settings of the preset, or the cluster defaults, to compare with."""
    try:
        return usual_values(preset)
    except (run_config.BadConfig, tomllib.TOMLDecodeError):
        return usual_values("")
