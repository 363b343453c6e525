"""The tokens on the path to one call, a window at a time."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as s
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.web import access, calls, tokens
from agents.web import executions as execution_queries
from gyreweb.api import paging
from gyreweb.api.auth import viewer_of
from gyreweb.api.views.runs import PROBLEMS
from gyreweb.pages.tokenizer import token_texts
from scheduler.config import RunConfig


class Token(s.Serializer[Any]):
    position = s.IntegerField(help_text="From the root of the path.")
    id = s.IntegerField()
    text = s.CharField(help_text="‹id› where the policy's tokenizer is not at hand.")
    call = s.IntegerField(help_text="The call that added it.")
    sampled = s.BooleanField(help_text="By the policy; false: context.")
    trained = s.BooleanField(help_text="Target of a drawn trajectory.")
    logprob = s.FloatField(allow_null=True, help_text="As the engine reported it; null where not sampled.")
    version = s.IntegerField(allow_null=True, help_text="Weight version that sampled it.")


class TokenWindow(s.Serializer[Any]):
    execution = s.IntegerField()
    attempt = s.IntegerField()
    call = s.IntegerField(allow_null=True, help_text="End of the path; null: nothing is recorded.")
    num_path = s.IntegerField(help_text="Tokens of the whole path.")
    num_trained = s.IntegerField()
    advantage = s.FloatField(allow_null=True)
    results = Token(many=True)
    next = s.IntegerField(allow_null=True, help_text="`start` of the next window; null at the end.")


class ExecutionTokens(APIView):
    @extend_schema(
        operation_id="executions_tokens",
        parameters=[
            OpenApiParameter("call", int, description="Path to this call; else the first drawn one, or the last."),
            OpenApiParameter("start", int, description="First position of the window."),
            OpenApiParameter("limit", int),
        ],
        responses={200: TokenWindow, **PROBLEMS},
    )
    def get(self, request: Request, execution_id: int) -> Response:
        """Ids, texts, log-probabilities and weight versions on the path to a call, and which tokens are trained."""
        found = access.execution_for(viewer_of(request), execution_id)
        parents = {fact.number: fact.parent_number for fact in calls.facts_of(found)}
        drawn = execution_queries.trajectories(found)
        call = _call(request, parents, [row.leaf_call for row in drawn])
        path = tokens.path_tokens(found, parents, call) if call is not None else tokens.join([])
        trained = tokens.trained_mask(found, parents, path, drawn)
        start, limit = paging.number_of(request, "start"), paging.limit_of(request, tokens.WINDOW_TOKENS)
        rows = tokens.window(path, trained, start, limit)
        texts = token_texts(RunConfig.readable(found.run.config)["policy_path"], [row.id for row in rows])
        values = {
            "execution": found.pk,
            "attempt": found.attempt,
            "call": call,
            "num_path": len(path),
            "num_trained": int(trained.sum()),
            "advantage": found.advantage,
            "results": [vars(row) | {"text": text} for row, text in zip(rows, texts, strict=True)],
            "next": start + limit if start + limit < len(path) else None,
        }
        return Response(TokenWindow(values).data)


def _call(request: Request, parents: dict[int, int | None], leaves: list[int | None]) -> int | None:
    """Raises NotFound for a call that the execution has not."""
    if asked := request.query_params.get("call", ""):
        if int(asked) not in parents:
            raise NotFound(f"the execution has no call {int(asked)}; it has {len(parents)} of them")
        return int(asked)
    return next((leaf for leaf in leaves if leaf in parents), max(parents, default=None))
