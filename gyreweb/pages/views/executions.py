"""The executions of a run, paged by key; filters stand in the query string."""

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from agents.actions.reassess_executions import reassess_executions
from agents.exports.tables import CSV_TABLES, FORMATS, TABLES
from agents.web import access
from agents.web import executions as execution_queries
from gyreweb.pages import fragments
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.shell import must_operate, page, show, viewer_of


@page
@require_GET
def executions(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    filters = execution_queries.Filters.from_query(request.GET)
    rows, before = execution_queries.page(facts.run, filters)
    context = {
        "rows": rows,
        "filters": filters,
        "next_query": urlencode(filters.query() | {"before": str(before)}) if before else "",
        "outcomes": execution_queries.OUTCOMES,
        "filtered": bool(filters.query()),
        "filter_query": urlencode(filters.query()),
        "num_exported": execution_queries.num_ended(facts.run, filters),
    }
    if request.headers.get("HX-Request"):
        return show(request, "pages/_execution_rows.html", context, run=facts.run, section="executions")
    context |= fragments.page_context(facts, "executions") | {
        "export_tables": [(table.name, table.description) for table in TABLES.values()],
        "export_formats": FORMATS,
        "csv_tables": CSV_TABLES,
    }
    return show(request, "pages/executions.html", context, run=facts.run, section="executions")


@page
@require_POST
def reassess(request: HttpRequest, run_id: int) -> HttpResponse:
    """Ask for another assessment of all that the list's filters show."""
    viewer = viewer_of(request)
    run = access.run_for(viewer, run_id)
    must_operate(viewer)
    filters = execution_queries.Filters.from_query(request.GET)
    reason = request.POST.get("reason", "").strip()
    if not reason:
        messages.error(request, "To assess executions again, say why.")
    else:
        asked = reassess_executions(run, filters, user=viewer.user, reason=reason)
        said = f"{asked.num_queued:,} queued; the verdicts appear on the executions' pages."
        if asked.left_out:
            said += f" {asked.left_out:,} more than one request takes: ask again."
        messages.success(request, said)
        for why, number in asked.refused.items():
            messages.error(request, f"{number:,} not queued: {why}.")
    address = reverse("executions", args=[run_id])
    return redirect(f"{address}?{urlencode(filters.query())}" if filters.query() else address)
