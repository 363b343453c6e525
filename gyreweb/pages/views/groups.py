"""The groups of a run, and one group with its executions side by side."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from agents.web import access
from agents.web import groups as group_queries
from gyreweb.pages import fragments
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.shell import page, show, viewer_of


@page
@require_GET
def groups(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    filters = group_queries.Filters.from_query(request.GET)
    rows, before = group_queries.page(facts.run, filters)
    context = {
        "rows": rows,
        "filters": filters,
        "states": group_queries.STATES,
        "filtered": bool(filters.query()),
        "next_query": urlencode(filters.query() | {"before": str(before)}) if before else "",
    }
    if request.headers.get("HX-Request"):
        return show(request, "pages/_group_rows.html", context, run=facts.run, section="groups")
    context |= fragments.page_context(facts, "groups") | {
        "histogram": group_queries.histogram(facts.run, filters.kind),
        "api_path": f"/api/v1/runs/{run_id}/groups",
    }
    return show(request, "pages/groups.html", context, run=facts.run, section="groups")


@page
@require_GET
def group(request: HttpRequest, run_id: int, kind: str, number: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    found = group_queries.group_for(facts.run, kind, number)
    context = fragments.page_context(facts, "groups") | {
        "group": found,
        "row": group_queries.row_of(found),
        "executions": group_queries.executions_of(found),
        "histogram": group_queries.histogram(facts.run, kind, found),
        "api_path": f"/api/v1/groups/{found.pk}",
    }
    return show(request, "pages/group.html", context, run=facts.run, section="groups")
