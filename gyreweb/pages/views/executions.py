"""The executions of a run, paged by key; filters stand in the query string."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from agents.exports.tables import CSV_TABLES, FORMATS, TABLES
from agents.web import access
from agents.web import executions as execution_queries
from gyreweb.pages import fragments
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.shell import page, show, viewer_of


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
