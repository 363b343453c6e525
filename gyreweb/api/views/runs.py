"""Runs: launch, list, get, events, metrics, stop, pause, resume."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.actions import change_run_state
from agents.actions.launch_run import default_project, launch_run
from agents.web import access
from agents.web import runs as run_queries
from gyreweb.api import paging, serializers
from gyreweb.api.auth import viewer_of
from gyreweb.live.longpoll import MAX_WAIT_S
from gyreweb.pages.facts import RunFacts

PAGE = [OpenApiParameter("cursor", str), OpenApiParameter("limit", int)]
IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key", str, OpenApiParameter.HEADER, description="The same key returns the run that it made before."
)
WAIT = OpenApiParameter(
    "wait", int, description=f"Hold the answer back for up to so many seconds, at most {MAX_WAIT_S} (a long poll)."
)
PROBLEMS = dict.fromkeys((401, 403, 404, 409, 422), serializers.Problem)


def check_wait(request: Request) -> None:
    """The waiting itself is gyreweb.live.longpoll's."""
    if paging.number_of(request, "wait") > MAX_WAIT_S:
        raise ValidationError({"wait": f"at most {MAX_WAIT_S} seconds; ask again after that"})


def project_of(viewer: access.Viewer, slug: str | None) -> Any:
    """The project that is named, or the only one that the viewer sees."""
    projects = access.visible_projects(viewer)
    if slug:
        found = projects.filter(slug=slug).first()
        if found is None:
            raise ValidationError({"project": f"{slug!r} does not exist"})
        return found
    first = list(projects[:2])
    if len(first) > 1 and viewer.project_ids is not None:
        raise ValidationError({"project": "say which: you see several projects"})
    if first:
        return first[0]
    if viewer.project_ids is not None:
        raise PermissionDenied("You are in no project, so you cannot launch runs; an administrator can add you to one.")
    return default_project()


class Runs(APIView):
    scopes: ClassVar = {"POST": access.LAUNCH}

    @extend_schema(
        operation_id="runs_list",
        parameters=[
            *PAGE,
            OpenApiParameter("state", str, enum=["live", *run_queries.STATES]),
            OpenApiParameter("q", str),
        ],
        responses={200: serializers.paged("Run", serializers.Run), 401: serializers.Problem, 422: serializers.Problem},
    )
    def get(self, request: Request) -> Response:
        """Newest first."""
        rows = run_queries.filtered(
            access.visible_runs(viewer_of(request)),
            state=request.query_params.get("state", ""),
            text=request.query_params.get("q", "").strip()[:120],
        )
        limit, cursor = paging.limit_of(request), paging.cursor_of(request)
        if cursor is not None:
            rows = rows.filter(pk__lt=cursor)
        found = list(rows[: limit + 1])
        next_key = found[limit - 1].pk if len(found) > limit else None
        return Response(paging.page(serializers.Run(found[:limit], many=True).data, next_key))

    @extend_schema(
        operation_id="runs_launch",
        request=serializers.Launch,
        parameters=[IDEMPOTENCY],
        responses={201: serializers.RunDetail, 200: serializers.RunDetail, **PROBLEMS},
    )
    def post(self, request: Request) -> Response:
        """Launch a run. 201: it was made; 200: the idempotency key had made it before."""
        body = serializers.Launch(data=request.data)
        body.is_valid(raise_exception=True)
        key = request.headers.get("Idempotency-Key", "")
        if len(key) > 64:
            raise ValidationError({"Idempotency-Key": "at most 64 characters"})
        viewer, wanted = viewer_of(request), body.validated_data
        project = project_of(viewer, wanted.get("project"))
        known = bool(key) and access.visible_runs(viewer).filter(project=project, idempotency_key=key).exists()
        run = launch_run(
            project=project,
            user=viewer.user,
            preset=wanted["preset"] or None,
            settings=wanted["settings"],
            name=wanted["name"],
            idempotency_key=key,
        )
        return Response(serializers.RunDetail(run).data, status=200 if known else 201)


class RunItem(APIView):
    @extend_schema(
        operation_id="runs_get",
        parameters=[
            WAIT,
            OpenApiParameter("until", str, enum=["finished"], description="With `wait`: finished or stopped."),
        ],
        responses={200: serializers.RunDetail, **PROBLEMS},
    )
    def get(self, request: Request, run_id: int) -> Response:
        """One run. With `wait`, as soon as it has ended, or as it is when the time is up."""
        check_wait(request)
        return Response(serializers.RunDetail(access.run_for(viewer_of(request), run_id)).data)


class RunEvents(APIView):
    @extend_schema(
        operation_id="runs_events",
        parameters=[OpenApiParameter("after", int), OpenApiParameter("limit", int), WAIT],
        responses={200: serializers.Events, **PROBLEMS},
    )
    def get(self, request: Request, run_id: int) -> Response:
        """Events with a seq greater than `after`, oldest first. The log has no gaps.

        With `wait`, as soon as there is one, or none when the time is up.
        """
        check_wait(request)
        run = access.run_for(viewer_of(request), run_id)
        after, limit = paging.number_of(request, "after"), paging.limit_of(request, 200)
        rows = run_queries.events_after(run, after, limit)
        return Response({"results": serializers.Event(rows, many=True).data, "newest": run.event_seq})


class RunMetrics(APIView):
    @extend_schema(operation_id="runs_metrics", responses={200: serializers.Metrics, **PROBLEMS})
    def get(self, request: Request, run_id: int) -> Response:
        """The seven facts, the alarms and the reward curve."""
        facts = RunFacts(access.run_for(viewer_of(request), run_id))
        evaluations, outcomes = facts.evaluations, facts.outcomes
        values = {
            "step": facts.run.version,
            "steps": facts.steps,
            "waterlevel": facts.run.waterlevel,
            "room": facts.room,
            "cells_in_rollout": facts.num_rollout,
            "cells_in_training": facts.num_training,
            "heldout_first": evaluations[0].reward_mean if evaluations else None,
            "heldout_last": evaluations[-1].reward_mean if evaluations else None,
            "staleness_mean": facts.staleness.mean,
            "staleness_max": facts.staleness.max,
            "finished": outcomes.finished,
            "unresolved": outcomes.unresolved,
            "unresolved_share": outcomes.unresolved_share,
            "unresolved_mean_shift": facts.exclusion.mean_shift,
            "unresolved_std_shift": facts.exclusion.std_shift,
            "false_forks": outcomes.false_forks,
            "calls": outcomes.calls,
            "eta_s": facts.eta_s,
            "alarms": [{"code": a.code, "tone": a.tone, "head": a.head, "text": a.text} for a in facts.alarms()],
            "rewards": facts.rewards,
            "evaluations": evaluations,
        }
        return Response(serializers.Metrics(values).data)


class _Act(APIView):
    scopes: ClassVar = {"POST": access.OPERATE}

    def act(self, request: Request, run_id: int, change: Any, shape: Any) -> Response:
        viewer = viewer_of(request)
        run = access.run_for(viewer, run_id)
        body = shape(data=request.data)
        body.is_valid(raise_exception=True)
        changed = change(run, user=viewer.user, reason=body.validated_data["reason"])
        changed.project, changed.task_set = run.project, run.task_set
        return Response(serializers.RunDetail(changed).data)


class StopRun(_Act):
    @extend_schema(
        operation_id="runs_stop", request=serializers.Reason, responses={200: serializers.RunDetail, **PROBLEMS}
    )
    def post(self, request: Request, run_id: int) -> Response:
        """Owed executions are cancelled and cells stop; what was stepped stays."""
        return self.act(request, run_id, change_run_state.stop_run, serializers.Reason)


class PauseRun(_Act):
    @extend_schema(
        operation_id="runs_pause", request=serializers.Reason, responses={200: serializers.RunDetail, **PROBLEMS}
    )
    def post(self, request: Request, run_id: int) -> Response:
        """No dispatch and no launch; running executions finish and are kept."""
        return self.act(request, run_id, change_run_state.pause_run, serializers.Reason)


class ResumeRun(_Act):
    @extend_schema(
        operation_id="runs_resume",
        request=serializers.OptionalReason,
        responses={200: serializers.RunDetail, **PROBLEMS},
    )
    def post(self, request: Request, run_id: int) -> Response:
        return self.act(request, run_id, change_run_state.resume_run, serializers.OptionalReason)
