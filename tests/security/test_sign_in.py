"""Guessing passwords: a name is closed for a while to the address that failed, on the page and in the admin."""

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client

ATTEMPTS = settings.AXES_FAILURE_LIMIT


@pytest.fixture
def user(db: None) -> str:
    return get_user_model().objects.create_superuser("ada", password="right").get_username()


def sign_in(path: str, name: str, password: str, address: str = "192.0.2.1", **headers: str) -> int:
    body = {"username": name, "password": password}
    return Client(REMOTE_ADDR=address, headers=headers).post(path, body).status_code


@pytest.mark.parametrize("path", ["/login/", "/admin/login/"])
def test_after_too_many_failures_even_the_right_password_has_to_wait(user: str, path: str) -> None:
    for _ in range(ATTEMPTS - 1):
        assert sign_in(path, user, "wrong") == 200
    assert sign_in(path, user, "wrong") == 429
    assert sign_in(path, user, "right") == 429
    reply = Client(REMOTE_ADDR="192.0.2.1").post("/login/", {"username": user, "password": "right"})
    assert "Too many failed attempts. Wait 5 minutes" in reply.content.decode()
    assert reply.headers["Retry-After"] == "300"


def test_others_are_not_shut_out_with_them(user: str) -> None:
    get_user_model().objects.create_superuser("bob", password="right")
    for _ in range(ATTEMPTS):
        sign_in("/login/", user, "wrong")
    assert sign_in("/login/", "bob", "right") == 302
    assert sign_in("/login/", user, "right", address="192.0.2.2") == 302


def test_a_success_starts_the_count_anew(user: str) -> None:
    for _ in range(ATTEMPTS - 1):
        sign_in("/login/", user, "wrong")
    assert sign_in("/login/", user, "right") == 302
    assert sign_in("/login/", user, "wrong") == 200


def test_a_client_chooses_its_own_address_only_behind_our_proxy(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(ATTEMPTS):
        sign_in("/login/", user, "wrong", **{"X-Forwarded-For": f"198.51.100.{number}"})
    assert sign_in("/login/", user, "right", **{"X-Forwarded-For": "198.51.100.99"}) == 429
    monkeypatch.setattr(settings, "BEHIND_PROXY", True)
    assert sign_in("/login/", user, "right", **{"X-Forwarded-For": "192.0.2.1, 198.51.100.99"}) == 302
    assert sign_in("/login/", user, "right", **{"X-Forwarded-For": "198.51.100.99, 192.0.2.1"}) == 429
