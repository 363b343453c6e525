"""Requests whose address holds a NUL get 400: Postgres stores none, so no filter, search or name can mean one."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.decorators import sync_and_async_middleware

WHY = "The address holds a NUL character (%00). Take it out.\n"


@sync_and_async_middleware
def refuse_nul(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware; forms and serializers refuse NULs in bodies themselves."""
    if iscoroutinefunction(get_response):

        async def later(request: HttpRequest) -> HttpResponse:
            answered: HttpResponse = refused(request) if holds_nul(request) else await get_response(request)
            return answered

        return later

    def now(request: HttpRequest) -> HttpResponse:
        answered: HttpResponse = refused(request) if holds_nul(request) else get_response(request)
        return answered

    return now


def holds_nul(request: HttpRequest) -> bool:
    return "%00" in request.META.get("QUERY_STRING", "") or "\0" in request.path


def refused(request: HttpRequest) -> HttpResponse:
    if request.path.startswith("/api/"):
        from gyreweb.api.problems import answer  # needs the app registry

        return answer(400, WHY.strip())
    return HttpResponseBadRequest(WHY, content_type="text/plain; charset=utf-8")
