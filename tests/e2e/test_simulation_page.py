"""A saved simulation in the browser: its chart counts hours, and the keyboard goes from decision to decision."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command
from playwright.sync_api import Page, expect

from scheduler.simulator.studies.models import Simulation
from tests.e2e.conftest import becomes_true
from tests.simulations.small import small_file


@pytest.fixture
def saved(database_url: str, tmp_path: Path) -> Simulation:
    preset = small_file(tmp_path)
    call_command("simulate", "--preset", preset, "--policy", "elastic,colocate", "--seeds", "2", "--save", "--json")
    return Simulation.objects.get()


def test_the_chart_of_a_simulation_counts_hours_and_says_each_decision(saved: Simulation, page: Page) -> None:
    page.goto("/")
    page.click("nav >> text=Simulations")
    page.click(f"a[href='/simulations/{saved.pk}/']")
    expect(page.locator("h1")).to_have_text("small")
    becomes_true(page, "document.querySelector('#water svg') !== null")
    labels = page.locator("#water svg text").all_text_contents()
    assert [text for text in labels if text.endswith(" h")]
    assert not [text for text in labels if ":" in text]
    page.focus("#water")
    page.keyboard.press("ArrowLeft")
    said = page.locator("#water-said")
    expect(said).to_contain_text(f"{saved.runs.get(policy_kind='elastic', seed=1).hours:.2f} h")
    page.click("text=colocate >> nth=0")
    expect(page.locator("h2", has_text="colocate, seed 1")).to_be_visible()
