"""The gate: one answer for pipelines, whether a run is good enough."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.web import access
from gyreweb.api.auth import viewer_of
from gyreweb.api.query import real_of
from gyreweb.api.views.runs import PROBLEMS
from scheduler.web.gate import FAILED, PASSED, PENDING, Limits, gate

LIMITS = [
    OpenApiParameter("min_reward", float, description="Held-out reward of the newest finished evaluation, at least."),
    OpenApiParameter("min_gain", float, description="That minus the reward of the first evaluation, at least."),
    OpenApiParameter("max_unresolved_share", float, description="Of the training executions that finished, 0 to 1."),
    OpenApiParameter("max_false_forks", int, description="Calls that left recorded tokens, at most."),
    OpenApiParameter(
        "margin", float, description="So many standard errors must lie between a held-out figure and its limit."
    ),
]


class HeldOut(s.Serializer[Any]):
    evaluation = s.IntegerField()
    version = s.IntegerField(help_text="Weight version that was evaluated.")
    mean = s.FloatField(help_text="Mean raw reward over the scored executions.")
    standard_error = s.FloatField(allow_null=True, help_text="Over tasks; null below two of them.")
    num_scored = s.IntegerField()
    num_tasks = s.IntegerField()


class GateCheck(s.Serializer[Any]):
    name = s.CharField()
    passed = s.BooleanField()
    value = s.FloatField(allow_null=True)
    standard_error = s.FloatField(allow_null=True)
    limit = s.FloatField(allow_null=True)
    text = s.CharField()


class Gate(s.Serializer[Any]):
    run = s.IntegerField(source="run.pk")
    state = s.CharField(source="run.state")
    step = s.IntegerField(source="run.version")
    verdict = s.ChoiceField([PASSED, FAILED, PENDING], help_text="pending: the run can still go on.")
    passed = s.BooleanField()
    reasons = s.ListField(child=s.CharField(), help_text="The texts of the checks that did not pass.")
    checks = GateCheck(many=True)
    first = HeldOut(allow_null=True)
    last = HeldOut(allow_null=True)
    gain = s.FloatField(allow_null=True)
    gain_standard_error = s.FloatField(
        allow_null=True,
        help_text="Paired by task; of two independent means where the evaluations scored different tasks.",
    )


class RunGate(APIView):
    @extend_schema(operation_id="runs_gate", parameters=LIMITS, responses={200: Gate, **PROBLEMS})
    def get(self, request: Request, run_id: int) -> Response:
        """Whether the run finished and every limit holds, with the figures and the reasons.

        200 whatever the verdict; `verdict` is what a pipeline looks at.
        """
        run = access.run_for(viewer_of(request), run_id)
        false_forks = real_of(request, "max_false_forks")
        limits = Limits(
            min_reward=real_of(request, "min_reward"),
            min_gain=real_of(request, "min_gain"),
            max_unresolved_share=real_of(request, "max_unresolved_share"),
            max_false_forks=None if false_forks is None else int(false_forks),
            margin=abs(real_of(request, "margin") or 0.0),
        )
        return Response(Gate(gate(run, limits)).data)
