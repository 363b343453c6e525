"""Sign in, sign out, theme."""

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from gyreweb.pages.shell import THEMES, theme_of


class SignIn(LoginView):
    template_name = "pages/login.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return {**super().get_context_data(**kwargs), "theme": theme_of(self.request)}


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
