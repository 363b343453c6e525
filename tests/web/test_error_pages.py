"""Error pages look like Gyre, follow the theme, and say what happened and where to go on."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.views import defaults


@pytest.mark.parametrize(("cookie", "dressed"), [("dark", True), ("light", True), ("<x", False)])
def test_a_page_that_is_not_there_names_the_address_and_follows_the_theme(
    browser: Client, cookie: str, dressed: bool
) -> None:
    browser.cookies["theme"] = cookie
    reply = browser.get("/runs/4711/%3Cscript%3E/")
    text = reply.content.decode()
    assert reply.status_code == 404
    assert "<h1>Not found</h1>" in text
    assert "/runs/4711/&lt;script&gt;/" in text
    assert (f'data-theme="{cookie}"' in text) is dressed


def test_a_form_that_is_too_old_says_how_to_send_it_again(db: None) -> None:
    reply = Client(enforce_csrf_checks=True).post("/theme/", {"theme": "dark"})
    assert reply.status_code == 403
    assert "reload the page and send it again" in reply.content.decode()


def test_what_is_not_allowed_and_what_went_wrong_have_pages_of_their_own() -> None:
    request: HttpRequest = RequestFactory().get("/")
    refused = defaults.permission_denied(request, PermissionError())
    broken = defaults.server_error(request)
    assert (refused.status_code, broken.status_code) == (403, 500)
    for reply, said in ((refused, "Your role does not allow this"), (broken, "log of the web process")):
        text = reply.content.decode()
        assert said in text
        assert "css/tokens" in text
        assert 'href="/"' in text


def test_a_refusal_names_the_permission_that_is_lacking(member: Any) -> None:
    reply = member().get("/runs/new/")
    assert reply.status_code == 403
    text = reply.content.decode()
    assert "<h1>Your role does not allow this</h1>" in text
    assert "This needs the permission to launch runs." in text
