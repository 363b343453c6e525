"""What an operator does in a browser: ask what-if, watch it, reload, read the answer, look at the preview, apply it."""

from __future__ import annotations

import threading

from django.db import connection
from playwright.sync_api import Page, expect

from agents.models import Run
from scheduler.models import Override, WhatIf
from scheduler.simulator.whatif import work
from tests.e2e.conftest import becomes_true


def answer(what_if_id: int) -> threading.Thread:
    """A worker, as the queue `control` would have one."""

    def run() -> None:
        work.work_on(what_if_id)
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_asking_watching_reloading_and_applying(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/")
    page.keyboard.press("g")
    page.keyboard.press("w")
    expect(page.locator("h2", has_text="What if").first).to_be_visible()
    page.fill("#id_rho_min", "0.4, nothing")
    page.press("#id_rho_min", "Tab")
    expect(page.locator("#h_rho_min")).to_contain_text("'nothing' is no number")
    page.fill("#id_rho_min", "0.4, 0.7")
    page.press("#id_rho_min", "Tab")
    expect(page.locator(".send")).to_contain_text("3 settings, the present ones included, × 5 seeds")
    page.click("button:has-text('Simulate')")
    page.wait_for_url("**/what-if/?ask=*")
    expect(page.locator("#what-if")).to_contain_text("0 of 15 simulated runs")

    row = WhatIf.objects.get()
    worker = answer(row.pk)
    expect(page.locator("#what-if tr[data-point='1'] .whisker")).to_be_visible()
    page.reload()
    expect(page.locator("#what-if .pill.ok").first).to_have_text("finished")
    worker.join(60)
    expect(page.locator(".said .lead")).to_contain_text("present settings")
    becomes_true(page, "document.querySelector('[data-what-if-chart] canvas') !== null")

    page.click("tr[data-point='1'] button:has-text('Apply')")
    dialog = page.locator("dialog[open]")
    expect(dialog.locator(".preview")).to_contain_text("other decision")
    dialog.locator("[name=reason]").fill("the what-if says so")
    dialog.locator("button.p").click()
    expect(page.get_by_role("alert").first).to_contain_text("rho_min = 0.4")
    override = Override.objects.get()
    assert (override.value, override.reason) == ({"name": "rho_min", "value": 0.4}, "the what-if says so")
    expect(page.locator(".try:has(#id_rho_min) .now")).to_have_text("0.4")


def test_it_can_be_read_on_a_phone_and_cancelled_there(page: Page, run: Run) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/runs/{run.pk}/what-if/")
    page.fill("#id_j_max", "1, 2")
    page.press("#id_j_max", "Tab")
    page.click("button:has-text('Simulate')")
    page.wait_for_url("**/what-if/?ask=*")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.click("#what-if button:has-text('Cancel')")
    expect(page.locator("#what-if .pill.warn").first).to_have_text("cancelled")
    page.click("#what-if button:has-text('Go on')")
    expect(page.locator("#what-if")).to_contain_text("queued")
