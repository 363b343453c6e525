"""Saved simulations."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.actions.errors import NotFound
from agents.web import access
from gyreweb.api import paging, serializers
from gyreweb.api.auth import viewer_of
from gyreweb.api.query import flag_of
from gyreweb.api.views.runs import PAGE, PROBLEMS
from scheduler.simulator.actions.delete_simulation import delete_simulation
from scheduler.simulator.web import simulations as queries

POLICY = OpenApiParameter("policy", str, description="The policy whose run is given; default: the first.")


class Simulation(s.Serializer[Any]):
    """What a simulation came to. Hours and ratios are medians over the seeds."""

    id = s.IntegerField()
    name = s.CharField(help_text="Preset or file it began with.")
    simulated = s.BooleanField(default=True, help_text="Always true: nothing of this ran on a cluster.")
    fitted_from = s.IntegerField(source="fitted_from_id", allow_null=True, help_text="The live run it fits.")
    changes = s.DictField(help_text="Settings and parameters that differ from the preset.")
    seeds = s.ListField(child=s.IntegerField())
    summary = s.DictField(help_text="The last line of `simulate --json`.")
    command = s.CharField(help_text="Runs it again.")
    created_at = s.DateTimeField()


class SimulationDetail(Simulation):
    """With its settings, its workload, and one object per policy and seed."""

    settings = s.DictField()
    workload = s.DictField()
    results = s.SerializerMethodField()

    def get_results(self, row: Any) -> list[dict[str, Any]]:
        return [run.result for run in queries.runs_of(row)]


class SimulatedDecision(s.Serializer[Any]):
    number = s.IntegerField()
    at_s = s.FloatField(help_text="Simulated seconds since dispatch.")
    kind = s.CharField()
    cell_index = s.IntegerField(allow_null=True)
    accepted = s.BooleanField()
    reason_code = s.CharField()
    reason = s.CharField()
    params = s.DictField()


class Simulations(APIView):
    @extend_schema(
        operation_id="simulations_list",
        parameters=PAGE,
        responses={200: serializers.paged("Simulation", Simulation), **PROBLEMS},
    )
    def get(self, request: Request) -> Response:
        """Saved simulations, newest first."""
        limit = paging.limit_of(request)
        rows = queries.newest(viewer_of(request), limit=limit + 1, before=paging.cursor_of(request))
        next_key = rows[limit - 1].pk if len(rows) > limit else None
        return Response(paging.page(Simulation(rows[:limit], many=True).data, next_key))


class SimulationItem(APIView):
    scopes: ClassVar = {"DELETE": access.OPERATE}

    @extend_schema(operation_id="simulations_get", responses={200: SimulationDetail, **PROBLEMS})
    def get(self, request: Request, simulation_id: int) -> Response:
        return Response(SimulationDetail(queries.simulation_for(viewer_of(request), simulation_id)).data)

    @extend_schema(operation_id="simulations_delete", responses={204: None, **PROBLEMS})
    def delete(self, request: Request, simulation_id: int) -> Response:
        """Delete it with its decisions."""
        delete_simulation(queries.simulation_for(viewer_of(request), simulation_id))
        return Response(status=204)


class SimulatedDecisions(APIView):
    @extend_schema(
        operation_id="simulated_decisions_list",
        parameters=[*PAGE, POLICY, OpenApiParameter("accepted", bool), OpenApiParameter("kind", str)],
        responses={200: serializers.paged("SimulatedDecision", SimulatedDecision), **PROBLEMS},
    )
    def get(self, request: Request, simulation_id: int) -> Response:
        """Decisions of the first seed of a policy, newest first, refusals too."""
        simulation = queries.simulation_for(viewer_of(request), simulation_id)
        query = request.query_params
        run = queries.shown_run(simulation, query.get("policy", "")[:20])
        if run is None or query.get("policy", run.policy_kind) != run.policy_kind:
            raise NotFound(f"simulation {simulation_id} kept no decisions of {query.get('policy', 'any policy')!r}")
        limit = paging.limit_of(request)
        rows = queries.decisions_of(
            run, limit=limit + 1, before=paging.cursor_of(request), kind=query.get("kind", "")[:32],
            accepted=flag_of(request, "accepted"),
        )  # fmt: skip
        next_key = rows[limit - 1].number if len(rows) > limit else None
        return Response(paging.page(SimulatedDecision(rows[:limit], many=True).data, next_key))
