"""What-ifs of a run: ask the simulator, read its answer, cancel, go on, preview and apply a point."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers as s
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.web import access
from gyreweb.api import serializers
from gyreweb.api.auth import viewer_of
from gyreweb.api.views.runs import PROBLEMS
from scheduler.simulator.actions.apply_what_if import apply_what_if, preview_what_if
from scheduler.simulator.actions.end_what_if import cancel_what_if, resume_what_if
from scheduler.simulator.actions.start_what_if import start_what_if
from scheduler.simulator.web import what_ifs
from scheduler.simulator.whatif.question import BadQuestion, ask
from scheduler.simulator.whatif.reading import present


class WhatIfPoint(s.Serializer[Any]):
    """Means with their 95% interval over seeds, as [mean, low, high]; null while unknown."""

    number = s.IntegerField()
    changes = s.DictField()
    label = s.CharField()
    verdict = s.CharField(help_text="Against the present settings, in words.")
    num_done = s.IntegerField()
    error = s.CharField(help_text="Why the simulation got stuck; empty when it did not.")
    steps = s.IntegerField()
    E_d = s.FloatField(allow_null=True, help_text="Mean staleness of trained executions, in versions.")
    hours = s.ListField(child=s.FloatField(), allow_null=True)
    hours_per_step = s.ListField(child=s.FloatField(), allow_null=True)
    cell_hours = s.ListField(child=s.FloatField(), allow_null=True, help_text="Of cells of the present size.")
    ratio = s.ListField(child=s.FloatField(), allow_null=True, help_text="Of hours, to the present settings.")
    cell_ratio = s.ListField(child=s.FloatField(), allow_null=True, help_text="Of cell-hours.")
    can_apply = s.BooleanField()
    why_not = s.CharField(help_text="Why it cannot be changed while the run goes on.")


class WhatIfSummary(s.Serializer[Any]):
    id = s.IntegerField()
    state = s.ChoiceField(["queued", "running", "finished", "cancelled", "interrupted", "failed"])
    error = s.CharField()
    owner = s.CharField()
    span = s.CharField()
    hours = s.FloatField(allow_null=True)
    seeds = s.IntegerField()
    settings = s.DictField(child=s.ListField(child=s.JSONField()))
    num_done = s.IntegerField()
    num_to_do = s.IntegerField()
    created_at = s.DateTimeField()
    started_at = s.DateTimeField(allow_null=True)
    finished_at = s.DateTimeField(allow_null=True)


class WhatIf(WhatIfSummary):
    present = s.DictField(help_text="The settings of point 0.")
    target_version = s.IntegerField(allow_null=True, help_text="Every point is run up to it; null: to the end.")
    fit = s.DictField(help_text="What the durations rest on, recorded against simulated.")
    points = WhatIfPoint(many=True)
    recommendation = s.ListField(child=s.CharField(), help_text="Sentences, the most important first.")


class WhatIfs(s.Serializer[Any]):
    present = s.DictField(help_text="The run's settings now, overrides in force included.")
    lacking = s.CharField(help_text="What must still be recorded before the run can be simulated; empty: enough.")
    results = WhatIfSummary(many=True)


class PreviewLine(s.Serializer[Any]):
    accepted = s.BooleanField()
    kind = s.CharField()
    cell_index = s.IntegerField(allow_null=True)
    reason = s.CharField()


class WhatIfPreview(s.Serializer[Any]):
    without = PreviewLine(many=True)
    with_it = PreviewLine(many=True)


class AppliedOverrides(s.Serializer[Any]):
    results = serializers.Override(many=True)


class RunWhatIfs(APIView):
    scopes: ClassVar = {"POST": access.OPERATE}

    @extend_schema(operation_id="what_ifs_list", responses={200: WhatIfs, **PROBLEMS})
    def get(self, request: Request, run_id: int) -> Response:
        """The newest first, and what the next one would begin with."""
        run = access.run_for(viewer_of(request), run_id)
        now = present(run)
        rows = [what_ifs.details(shown) for shown in what_ifs.what_ifs_of(run, limit=100)]
        return Response(WhatIfs({"present": now.values, "lacking": now.lacking, "results": rows}).data)

    @extend_schema(operation_id="what_ifs_ask", request=serializers.AskWhatIf, responses={201: WhatIf, **PROBLEMS})
    def post(self, request: Request, run_id: int) -> Response:
        """Ask. The answer grows in the background: read it again until its state is `finished`."""
        viewer = viewer_of(request)
        run = access.run_for(viewer, run_id)
        body = serializers.AskWhatIf(data=request.data)
        body.is_valid(raise_exception=True)
        wanted, now = body.validated_data, present(run)
        try:
            question = ask(
                now.values, wanted["settings"], settings=now.settings, span=wanted["span"],
                hours=wanted.get("hours", 0.0), seeds=wanted["seeds"],
            )  # fmt: skip
        except BadQuestion as error:
            raise ValidationError({name: [why] for name, why in error.problems.items()}) from error
        row = start_what_if(run, question, user=viewer.user)
        return Response(WhatIf(what_ifs.details(what_ifs.what_if_of(run, row.pk))).data, status=201)


class WhatIfItem(APIView):
    @extend_schema(operation_id="what_ifs_get", responses={200: WhatIf, **PROBLEMS})
    def get(self, request: Request, run_id: int, what_if_id: int) -> Response:
        """Progress, points and the recommendation so far."""
        run = access.run_for(viewer_of(request), run_id)
        return Response(WhatIf(what_ifs.details(what_ifs.what_if_of(run, what_if_id))).data)


class _Act(APIView):
    scopes: ClassVar = {"POST": access.OPERATE}

    def act(self, request: Request, run_id: int, what_if_id: int, change: Any) -> Response:
        run = access.run_for(viewer_of(request), run_id)
        change(what_ifs.what_if_of(run, what_if_id).row)
        return Response(WhatIf(what_ifs.details(what_ifs.what_if_of(run, what_if_id))).data)


class CancelWhatIf(_Act):
    @extend_schema(operation_id="what_ifs_cancel", request=None, responses={200: WhatIf, **PROBLEMS})
    def post(self, request: Request, run_id: int, what_if_id: int) -> Response:
        """What was simulated stays."""
        return self.act(request, run_id, what_if_id, cancel_what_if)


class ResumeWhatIf(_Act):
    @extend_schema(operation_id="what_ifs_resume", request=None, responses={200: WhatIf, **PROBLEMS})
    def post(self, request: Request, run_id: int, what_if_id: int) -> Response:
        """Go on with one that was interrupted or cancelled."""
        return self.act(request, run_id, what_if_id, resume_what_if)


class ApplyWhatIfPoint(APIView):
    scopes: ClassVar = {"POST": access.OPERATE}

    @extend_schema(operation_id="what_ifs_preview", responses={200: WhatIfPreview, **PROBLEMS})
    def get(self, request: Request, run_id: int, what_if_id: int, number: int) -> Response:
        """What the scheduler would decide at this moment, without and with the point's settings."""
        run = access.run_for(viewer_of(request), run_id)
        return Response(WhatIfPreview(preview_what_if(what_ifs.point_of(run, what_if_id, number))).data)

    @extend_schema(
        operation_id="what_ifs_apply",
        request=serializers.ApplyWhatIf,
        responses={201: AppliedOverrides, **PROBLEMS},
    )
    def post(self, request: Request, run_id: int, what_if_id: int, number: int) -> Response:
        """Set an override for each of the point's changes, all or none."""
        viewer = viewer_of(request)
        run = access.run_for(viewer, run_id)
        point = what_ifs.point_of(run, what_if_id, number)
        body = serializers.ApplyWhatIf(data=request.data)
        body.is_valid(raise_exception=True)
        expires_at = timezone.now() + timedelta(seconds=body.validated_data["expires_in_s"])
        rows = apply_what_if(point, user=viewer.user, reason=body.validated_data["reason"], expires_at=expires_at)
        return Response(AppliedOverrides({"results": rows}).data, status=201)
