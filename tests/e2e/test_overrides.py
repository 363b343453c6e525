"""What an operator does in a browser: from a cell's row to an order, its banner, a conflict, a new end, and back."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone
from playwright.sync_api import Page, expect

from agents.models import Run
from scheduler.models import Override
from tests.support.demo_run import demo_override


def test_ordering_from_a_cells_row_with_preview_conflict_extension_and_hand_back(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/cells/")
    page.locator("tr", has_text="cell 1").get_by_role("link", name="Override…").click()
    page.wait_for_url("**/overrides/?*")
    expect(page.locator("#id_cell")).to_have_value("1")
    expect(page.locator("#id_number")).to_be_hidden()

    page.get_by_label("Drain a cell").check()
    expect(page.locator("#order-preview")).to_contain_text("cell 1 is not drained yet")
    expect(page.get_by_label("I mean it")).to_be_hidden()
    page.get_by_label("unsafe").check()
    expect(page.get_by_label("I mean it")).to_be_visible()
    page.get_by_label("unsafe").uncheck()

    page.get_by_label("Change a setting").check()
    expect(page.locator("#id_cell")).to_be_hidden()
    page.select_option("#id_setting", "rho_min")
    page.fill("#id_number", "0.75")
    page.fill("#id_reason", "see <b>whether</b> it helps")
    demo_override(run)  # somebody else orders meanwhile
    page.get_by_role("button", name="Order it").click()
    expect(page.locator("#problems")).to_contain_text("Somebody changed the overrides of this run")
    expect(page.locator("#id_reason")).to_have_value("see <b>whether</b> it helps")
    page.get_by_role("button", name="Order it").click()
    words = f"rho_min {run.config['rho_min']:g} → 0.75"
    expect(page.locator("#f-alarms")).to_contain_text(f"Override: {words}")

    mine = page.locator(".orders li", has_text=words)
    mine.get_by_label("How long override").select_option(label="1 day")
    mine.get_by_role("button", name="Set end").click()
    expect(page.locator("[role=alert]")).to_contain_text("holds until")
    row = Override.objects.get(run=run, kind="setting")
    assert row.expires_at > timezone.now() + timedelta(hours=23)
    page.locator(".orders li", has_text=words).get_by_role("button", name="Hand back").click()
    expect(page.locator("[role=alert]")).to_contain_text("the scheduler decides again")
    expect(page.locator("#f-alarms")).not_to_contain_text(words)
    expect(page.locator(".orders li", has_text=words)).to_contain_text("released")
    row.refresh_from_db()
    assert row.released_at is not None
