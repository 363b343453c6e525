"""A real web process and Debian's Chromium, over the test database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from playwright.sync_api import Browser, Page, expect, sync_playwright

from agents.models import Run
from tests.support.demo_run import Shape, demo_run
from tests.support.waiting import wait_for
from tests.support.web_process import web_process

CHROMIUM = "/usr/bin/chromium"
ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
SMALL = Shape(groups_per_batch=3, executions_per_group=4, bursts=2, cells=2, concurrency=16)
#: Statuses of a form that is refused: the browser logs them, and they are no fault.
REFUSALS = ("409", "422")
expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        # Playwright keeps an event loop in this thread; Django then takes plain calls for async ones.
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
        yield browser
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
        browser.close()


@pytest.fixture
def run(database_url: str) -> Run:
    return demo_run(shape=SMALL)


@pytest.fixture(scope="module")
def site(django_db_setup: None) -> Iterator[str]:
    """Address of a web process that serves the test database; it outlives the rows of a test."""
    with web_process() as process:
        yield process.address


@pytest.fixture
def page(chromium: Browser, site: str, database_url: str) -> Iterator[Page]:
    """A signed-in tab. A console error, a page error or a refused policy fails the test."""
    get_user_model().objects.create_superuser("root", "root@example.org", "secret")
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, base_url=site)
    tab = context.new_page()
    tab.set_default_timeout(30_000)
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(f"{error}"))
    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    sign_in(tab)
    tab.wrong = wrong
    yield tab
    context.close()
    assert [text for text in wrong if not any(status in text for status in REFUSALS)] == []


def becomes_true(tab: Any, expression: str) -> None:
    """Waits for a JavaScript expression; the page's policy forbids the browser to poll a string by itself."""
    wait_for(lambda: tab.evaluate(expression), f"{expression} becomes true")


def sign_in(tab: Any) -> None:
    tab.goto("/login/")
    tab.fill("[name=username]", "root")
    tab.fill("[name=password]", "secret")
    tab.click("button:has-text('Sign in')")
    tab.wait_for_url("**/")
