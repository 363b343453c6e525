"""Saved simulations: the list, one of them with its comparison, chart and decisions, and all decisions of one run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from statistics import fmean, median
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from gyreweb.pages.shell import must_operate, page, show, viewer_of
from scheduler.core.settings import Settings
from scheduler.simulator import scenarios
from scheduler.simulator.actions.delete_simulation import delete_simulation
from scheduler.simulator.core import Workload
from scheduler.simulator.studies.definitions import definition
from scheduler.simulator.web import simulations as queries
from scheduler.web.decisions import PAGE_SIZE

NUM_DECISIONS = 40
HOUR_S = 3600.0
#: Hours that the chart shows at once; 0 is all of them.
WINDOWS = {"all": 0.0, "24 h": 24.0, "12 h": 12.0, "6 h": 6.0}
EXAMPLE = ".venv/bin/python manage.py simulate --preset baseline-set --policy elastic,colocate --save"


@dataclass(frozen=True)
class PolicyRow:
    """One policy of the comparison, over all its seeds as in the command's table: medians of hours and the bound,
    means of shares and moves. `run`: its first seed, whose series are shown."""

    policy: str
    run: Any
    hours: float
    hours_half: float | None
    hours_per_step: float
    ratio: float | None
    ratio_half: float | None
    cell_hours: float
    staleness: float
    rollout: float
    training: float
    busy: float
    moves: float
    bound: float
    over: float
    definition: str


@page
@require_GET
def simulations(request: HttpRequest) -> HttpResponse:
    rows = queries.newest(viewer_of(request))
    context = {"rows": [(row, _ratios(row.summary)) for row in rows], "example": EXAMPLE, "max_rows": queries.MAX_ROWS}
    return show(request, "pages/simulations.html", context, section="simulations")


@page
@require_GET
def simulation(request: HttpRequest, simulation_id: int) -> HttpResponse:
    found = queries.simulation_for(viewer_of(request), simulation_id)
    run = queries.shown_run(found, request.GET.get("policy", ""))
    if run is None:
        raise Http404("this simulation kept no series")
    window, since_s, until_s = _window(request, (run.hours or 0.0) * HOUR_S)
    rows = queries.decisions_of(run, limit=NUM_DECISIONS, routine=False, until_s=until_s)
    length_s = until_s - since_s
    context = {
        "simulation": found,
        "shown": run,
        "policies": _policy_rows(found, queries.runs_of(found)),
        "water": queries.chart(run, found.settings["concurrency_per_cell"], since_s, until_s),
        "windows": list(WINDOWS),
        "window": window,
        "earlier": None if since_s <= 0 else max(0.0, since_s - length_s) / HOUR_S,
        "later": None if until_s >= (run.hours or 0.0) * HOUR_S else until_s / HOUR_S,
        "decisions": queries.sentences(rows),
        "settings": _settings(found),
        "api_path": f"/api/v1/simulations/{found.pk}",
    }
    return show(request, "pages/simulation.html", context, section="simulations")


@page
@require_POST
def delete(request: HttpRequest, simulation_id: int) -> HttpResponse:
    viewer = viewer_of(request)
    found = queries.simulation_for(viewer, simulation_id)
    must_operate(viewer)
    name = str(found)
    delete_simulation(found)
    messages.info(request, f"{name} is deleted.")
    return redirect("simulations")


@page
@require_GET
def decisions(request: HttpRequest, simulation_id: int) -> HttpResponse:
    found = queries.simulation_for(viewer_of(request), simulation_id)
    run = queries.shown_run(found, request.GET.get("policy", ""))
    if run is None:
        raise Http404("this simulation kept no decisions")
    query = request.GET
    rows = queries.decisions_of(
        run,
        limit=PAGE_SIZE + 1,
        before=_number(query.get("before")),
        kind=query.get("kind", ""),
        cell_index=_number(query.get("cell")),
        accepted={"yes": True, "no": False}.get(query.get("accepted", "")),
    )
    more = len(rows) > PAGE_SIZE
    rows = rows[:PAGE_SIZE]
    context = {
        "simulation": found,
        "shown": run,
        "decisions": queries.sentences(rows),
        "next_before": rows[-1].number if more else None,
        "kinds": queries.decision_kinds(run),
        "kind": query.get("kind", ""),
        "cell": query.get("cell", ""),
        "accepted": query.get("accepted", ""),
        "cells": [(index, queries.cell_name(index)) for index in range(found.settings["cells"])],
    }
    partial = bool(request.headers.get("HX-Request"))
    template = "pages/_simulated_decision_rows.html" if partial else "pages/simulated_decisions.html"
    return show(request, template, context, section="simulations")


@page
@require_GET
def decision_inputs(request: HttpRequest, simulation_id: int, run_id: int, number: int) -> HttpResponse:
    """The snapshot that `decide` saw, as JSON."""
    found = queries.simulation_for(viewer_of(request), simulation_id)
    run = found.runs.defer("series").filter(pk=run_id).first()
    if run is None:
        raise Http404(f"simulation {simulation_id} has no run {run_id}")
    return JsonResponse({"number": number, "snapshot": queries.inputs_of(run, number)})


def _ratios(summary: dict[str, Any]) -> list[tuple[str, float, float | None]]:
    """(policy, hours per step, ratio)"""
    hours, ratios = summary["hours_per_step"], summary["ratio_to_elastic"]
    return [(policy, hours[policy], ratios[policy]) for policy in queries.in_order(hours)]


def _policy_rows(found: Any, runs: list[Any]) -> list[PolicyRow]:
    summary = found.summary
    by_policy: dict[str, list[Any]] = defaultdict(list)
    for run in runs:
        by_policy[run.policy_kind].append(run)
    return [_policy_row(summary, policy, by_policy[policy]) for policy in queries.in_order(summary["hours"])]


def _policy_row(summary: dict[str, Any], policy: str, runs: list[Any]) -> PolicyRow:
    results = [run.result for run in runs]
    bound = median(result["bound_h_per_step"] for result in results)
    return PolicyRow(
        policy=policy,
        run=runs[0],
        hours=summary["hours"][policy],
        hours_half=_half(summary["hours_interval_95"][policy]),
        hours_per_step=summary["hours_per_step"][policy],
        ratio=summary["ratio_to_elastic"][policy],
        ratio_half=_half(summary["ratio_interval_95"][policy]),
        cell_hours=median(result["cell_hours"] for result in results),
        staleness=summary["E_d"][policy],
        rollout=fmean(result["utilisation"]["rollout"] for result in results),
        training=fmean(result["utilisation"]["training"] for result in results),
        busy=fmean(result["utilisation"]["training_busy"] for result in results),
        moves=fmean(result["switches"] for result in results),
        bound=bound,
        over=summary["hours_per_step"][policy] / bound - 1.0,
        definition=definition(policy) if policy in scenarios.POLICIES else "",
    )


def _half(interval: list[float] | None) -> float | None:
    return (interval[1] - interval[0]) / 2 if interval else None


def _settings(found: Any) -> list[tuple[str, list[tuple[str, Any, bool]]]]:
    """(title, [(name, value, was it changed)]) in the order in which they are declared; JSON keeps none."""
    tables = (("Run settings", found.settings, Settings), ("Workload", found.workload, Workload))
    return [
        (title, [(f.name, _plain(table[f.name]), f.name in found.changes) for f in fields(kind) if f.name in table])
        for title, table, kind in tables
    ]


def _plain(value: Any) -> Any:
    """600.0 as 600: a setting reads as one would write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _window(request: HttpRequest, end_s: float) -> tuple[str, float, float]:
    """(name, since, until) in seconds since dispatch."""
    name = request.GET.get("window", "all")
    length_s = WINDOWS.get(name, 0.0) * HOUR_S
    if not length_s or length_s >= end_s:
        return "all", 0.0, end_s
    try:
        since_s = float(request.GET.get("from", "0")) * HOUR_S
    except ValueError:
        since_s = 0.0
    since_s = min(max(0.0, since_s), end_s - length_s) if since_s == since_s else 0.0
    return name, since_s, since_s + length_s


def _number(raw: str | None) -> int | None:
    return int(raw) if raw and raw.isdecimal() and len(raw) < 16 else None
