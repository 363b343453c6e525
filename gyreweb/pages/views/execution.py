"""One execution: facts, timeline, outline, transcript, tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from agents.actions.cancel_execution import cancel_execution
from agents.actions.errors import Refused
from agents.actions.reassess_execution import request_reassessment, why_not
from agents.replay import replay_draws
from agents.web import access, calls, outline
from agents.web import executions as execution_queries
from agents.web import tokens as token_queries
from gyreweb.pages.shell import must_operate, page, show, viewer_of
from gyreweb.pages.tokenizer import token_texts
from scheduler.config import RunConfig

ROWS_PER_PAGE = 200
VIEWS = ("transcript", "tokens")


def _number(raw: str | None) -> int | None:
    return int(raw) if raw and raw.isdecimal() and len(raw) < 10 else None


@page
@require_GET
def execution(request: HttpRequest, execution_id: int) -> HttpResponse:
    found = access.execution_for(viewer_of(request), execution_id)
    context = _workspace(request, found)
    if request.headers.get("HX-Request"):
        return show(request, "pages/_workspace.html", context, run=found.run, section="executions")
    context |= _verdicts(found) | {
        "timeline": {"calls": calls.timeline_of(found), "took": _took(found)},
        "passed_over": _passed_over(found),
        "siblings": execution_queries.siblings(found),
        "api_path": f"/api/v1/executions/{found.pk}",
    }
    return show(request, "pages/execution.html", context, run=found.run, section="executions")


def _verdicts(found: Any) -> dict[str, Any]:
    return {
        "assessments": execution_queries.assessments(found),
        "reassessment": execution_queries.open_reassessment(found),
        "no_reassessment": why_not(found) if found.finished_at else "",
    }


def _passed_over(found: Any) -> list[tuple[str, list[int]]]:
    """Why selection passed calls over, each reason with its calls."""
    calls_by_reason: dict[str, list[int]] = {}
    for call, reason in found.exclusions:
        calls_by_reason.setdefault(outline.REASONS.get(reason, reason), []).append(call)
    return sorted(calls_by_reason.items(), key=lambda item: item[1])


def _took(found: Any) -> float | None:
    if found.harness_started_at is None or found.harness_ended_at is None:
        return None
    return (found.harness_ended_at - found.harness_started_at).total_seconds()


def _figures(found: Any, facts: list[outline.CallFact]) -> outline.Figures:
    """The sealed tree's figures; of an execution that is not sealed, what its recorded calls add up to so far."""
    if found.state == "finished":
        return outline.Figures(found.num_calls, found.num_unique_tokens, found.num_total_tokens)
    return outline.figures_of(facts)


def _workspace(request: HttpRequest, found: Any) -> dict[str, Any]:
    facts = calls.facts_of(found)
    stretches = outline.build(facts)
    selection = calls.selection_of(found)
    outline.explain(stretches, selection)
    selected = _number(request.GET.get("call"))
    numbers = {fact.number for fact in facts}
    if selected not in numbers:
        selected = next((s.last.number for s in stretches if s.draw == 0), facts[-1].number if facts else None)
    view = request.GET.get("view", "")
    context: dict[str, Any] = {
        "execution": found,
        "stretches": stretches[:ROWS_PER_PAGE],
        "next_row": ROWS_PER_PAGE if len(stretches) > ROWS_PER_PAGE else None,
        "num_leaves": sum(stretch.role != "auxiliary" for stretch in stretches),
        "num_drawn": len(selection.draws),
        "record": selection.record,
        "draws": selection.draws,
        "num_calls": len(facts),
        "figures": _figures(found, facts),
        "selected": selected,
        "view": view if view in VIEWS else "transcript",
    }
    if selected is not None:
        parents = {fact.number: fact.parent_number for fact in facts}
        context |= _selected(request, found, parents, selected, context["view"])
    return context


def _selected(
    request: HttpRequest, found: Any, parents: dict[int, int | None], selected: int, view: str
) -> dict[str, Any]:
    path = token_queries.path_numbers(parents, selected)
    context: dict[str, Any] = {"call": calls.call_of(found, selected), "path": path}
    if view == "tokens":
        return context | _tokens(request, found, parents, selected)
    shown = path if request.GET.get("whole") else path[-calls.TRANSCRIPT_CALLS :]
    return context | {
        "messages_shown": calls.transcript(calls.calls_on(found, shown), selected),
        "num_earlier": len(path) - len(shown),
    }


def _tokens(request: HttpRequest, found: Any, parents: dict[int, int | None], selected: int) -> dict[str, Any]:
    path = token_queries.path_tokens(found, parents, selected)
    trained = token_queries.trained_mask(found, parents, path, execution_queries.trajectories(found))
    size = min(_number(request.GET.get("size")) or token_queries.WINDOW_TOKENS, token_queries.MAX_WINDOW_TOKENS)
    own = int((path.calls == selected).argmax()) if len(path) else 0
    at = _number(request.GET.get("at"))
    start = max(0, min(own - 32 if at is None else at, max(0, len(path) - 1)))
    rows = token_queries.window(path, trained, start, size)
    texts = token_texts(RunConfig.readable(found.run.config)["policy_path"], [row.id for row in rows])
    advantage = found.advantage
    return {
        "tokens": list(zip(rows, texts, strict=True)),
        "strips": {
            "start": start,
            "texts": texts,
            "trained": [int(row.trained) for row in rows],
            "sampled": [int(row.sampled) for row in rows],
            "logprobs": [row.logprob for row in rows],
            "versions": [row.version for row in rows],
            "advantage": advantage,
        },
        "start": start,
        "end": start + len(rows),
        "num_path": len(path),
        "num_trained": int(trained.sum()),
        "previous_at": max(0, start - size) if start else None,
        "next_at": start + size if start + size < len(path) else None,
        "advantage": advantage,
    }


@page
@require_GET
def outline_rows(request: HttpRequest, execution_id: int) -> HttpResponse:
    """The next rows of a long outline."""
    found = access.execution_for(viewer_of(request), execution_id)
    stretches = outline.build(calls.facts_of(found))
    outline.explain(stretches, calls.selection_of(found))
    start = _number(request.GET.get("row")) or 0
    end = start + ROWS_PER_PAGE
    context = {
        "execution": found,
        "stretches": stretches[start:end],
        "next_row": end if len(stretches) > end else None,
        "selected": _number(request.GET.get("call")),
    }
    return show(request, "pages/_outline.html", context, run=found.run, section="executions")


@page
@require_GET
def verdicts(request: HttpRequest, execution_id: int) -> HttpResponse:
    """The card of verdicts alone, for a page that waits for one."""
    found = access.execution_for(viewer_of(request), execution_id)
    context = {"execution": found} | _verdicts(found)
    return show(request, "pages/_verdicts.html", context, run=found.run, section="executions")


@page
@require_GET
def replay(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Whether replay reproduces the recorded draws, as a fragment of the page."""
    found = access.execution_for(viewer_of(request), execution_id)
    return show(request, "pages/_replay.html", {"replayed": replay_draws(found)}, run=found.run, section="executions")


@page
@require_POST
def reassess(request: HttpRequest, execution_id: int) -> HttpResponse:
    said = "Queued. The verdict appears below when the evaluator has run."
    return _act(request, execution_id, "assess an execution again", request_reassessment, said)


@page
@require_POST
def cancel(request: HttpRequest, execution_id: int) -> HttpResponse:
    return _act(request, execution_id, "cancel an execution", cancel_execution)


def _act(
    request: HttpRequest, execution_id: int, what: str, action: Callable[..., Any], said: str = ""
) -> HttpResponse:
    """What an operator may do to an execution with a reason; redirects to its page with a message."""
    viewer = viewer_of(request)
    found = access.execution_for(viewer, execution_id)
    must_operate(viewer)
    reason = request.POST.get("reason", "").strip()
    if not reason:
        messages.error(request, f"To {what}, say why.")
        return redirect("execution", execution_id)
    try:
        action(found, user=viewer.user, reason=reason)
    except Refused as error:
        messages.error(request, str(error))
    else:
        if said:
            messages.success(request, said)
    return redirect("execution", execution_id)
