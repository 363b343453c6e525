"""What a run recorded, trained and saved; and the calls that are recorded but never trained."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from agents.exports.tables import CSV_TABLES, TABLES
from agents.report import report as make_report
from agents.web import access
from agents.web import quarantine as quarantine_queries
from agents.web.divergence import divergences
from agents.web.outline import REASONS
from gyreweb.pages import fragments
from gyreweb.pages.facts import RunFacts
from gyreweb.pages.shell import page, show, viewer_of
from gyreweb.pages.tokenizer import token_texts


@page
@require_GET
def report(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    found = make_report(facts.run)
    tokens = found.tokens
    funnel = [
        ("recorded", tokens.recorded, "input + output of every call"),
        ("unique", tokens.unique, "each once, in the prefix-sharing trees"),
        ("sampled", tokens.sampled, "by the policy"),
        ("selectable", tokens.selectable, "sampled, on the path of a leaf; of admitted executions"),
        ("selected", tokens.selected, "targets of trained trajectories"),
    ]
    context = fragments.page_context(facts, "report") | {
        "report": found,
        "funnel": [(name, value, text, 100 * value / max(tokens.recorded, 1)) for name, value, text in funnel],
        "exclusions": [(REASONS.get(code, code), code, count) for code, count in found.exclusions.items()],
        "tables": [(table, table.name in CSV_TABLES) for table in TABLES.values()],
        "api_path": f"/api/v1/runs/{run_id}/report",
    }
    return show(request, "pages/report.html", context, run=facts.run, section="report")


@page
@require_GET
def quarantine(request: HttpRequest, run_id: int) -> HttpResponse:
    facts = RunFacts(access.run_for(viewer_of(request), run_id))
    filters = quarantine_queries.Filters.from_query(request.GET)
    calls, before = quarantine_queries.page(facts.run, filters)
    query = {"list": filters.kind, "reason": filters.reason}
    context = {
        "filters": filters,
        "calls": calls,
        "next_query": urlencode(query | {"before": str(before)}) if before else "",
    }
    if filters.kind == "false_forks":
        context["rows"] = [_with_texts(facts, found) for found in divergences(calls)]
    if request.headers.get("HX-Request"):
        return show(request, "pages/_quarantine_rows.html", context, run=facts.run, section="report")
    context |= fragments.page_context(facts, "report") | {
        "counts_of_calls": quarantine_queries.counts(facts.run),
        "api_path": f"/api/v1/runs/{run_id}/calls/{filters.kind}",
    }
    return show(request, "pages/quarantine.html", context, run=facts.run, section="report")


def _with_texts(facts: RunFacts, found: object) -> dict[str, object]:
    folder = facts.config["policy_path"]
    sides = {side: "".join(token_texts(folder, getattr(found, side))) for side in ("expected", "found")}
    return {"divergence": found, **sides}
