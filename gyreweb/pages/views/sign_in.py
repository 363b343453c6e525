"""Sign in, sign out, theme."""

from typing import Any

from django.conf import settings
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from gyreweb.pages.shell import THEMES, theme_of


class SignIn(LoginView):
    template_name = "pages/login.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return {**super().get_context_data(**kwargs), "theme": theme_of(self.request)}


def client_address(request: HttpRequest) -> str:
    """Who signs in: the peer, or the one that our own TLS-terminating proxy names last."""
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.BEHIND_PROXY else ""
    return forwarded.rpartition(",")[2].strip() or request.META.get("REMOTE_ADDR", "")


def locked_out(request: HttpRequest, *_: Any, **__: Any) -> HttpResponse:
    """The answer while a user name is closed to an address after too many failures."""
    minutes = int(settings.AXES_COOLOFF_TIME.total_seconds() // 60)
    context = {"theme": theme_of(request), "locked_minutes": minutes, "next": request.POST.get("next", "")}
    response = render(request, "pages/login.html", context, status=429)
    response["Retry-After"] = str(minutes * 60)
    return response


@require_POST
def set_theme(request: HttpRequest) -> HttpResponse:
    """Keep the choice in a cookie, so that the server draws the right theme at once."""
    back = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure()):
        back = "/"
    response = redirect(back)
    theme = request.POST.get("theme", "auto")
    if theme in THEMES:
        response.set_cookie("theme", theme, max_age=31_536_000, samesite="Lax", secure=request.is_secure())
    return response
