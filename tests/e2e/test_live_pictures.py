"""What is drawn while events come in is what a fresh load draws, for every kind of event, however the news travels."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from playwright.sync_api import Page, expect

from agents import events
from agents.actions.change_run_state import pause_run
from agents.events import EventKind as E
from agents.models import Run
from tests.e2e.conftest import becomes_true
from tests.support import happening
from tests.support.happening import ENDS, STATES

#: What the functions that draw were given, and what stands on the page; and both as a fresh load would have them.
BOTH = """async () => {
  const words = (element) => {
    const copy = element.cloneNode(true);
    for (const one of copy.querySelectorAll("time, svg")) one.remove();
    return copy.textContent.replace(/\\s+/g, " ").trim();
  };
  const parts = (root) => Object.fromEntries([...root.querySelectorAll("[id^=f-]")].map((e) => [e.id, words(e)]));
  const reply = await fetch(location.href);
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  const ended = "ended" in fresh.querySelector("[data-run]").dataset;
  return {
    live: { chart: gyre.chart.data, parts: parts(document),
            pill: document.querySelector("[data-live-text]").textContent },
    fresh: { chart: JSON.parse(fresh.getElementById("water-data").textContent), parts: parts(fresh),
             pill: ended ? "up to date" : "live" },
  };
}"""
#: Ages and speeds change by themselves between two looks.
MOVING = ("f-longest", "f-facts")


def happen(run: Run, kind: E, ago_s: float = 0.0) -> None:
    """In a thread without Playwright's event loop, under which nothing rings."""

    def work() -> None:
        happening.happen(run, kind, ago_s)
        connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(work).result()


def compare(page: Page, what: str) -> None:
    both = page.evaluate(BOTH)
    live, fresh = both["live"], both["fresh"]
    assert live["pill"] == fresh["pill"], what
    for name in fresh["parts"]:
        if name not in MOVING:
            assert live["parts"][name] == fresh["parts"][name], f"{what}: {name}"
    drawn, loaded = live["chart"], fresh["chart"]
    assert drawn["live"] == loaded["live"], what
    for name in ("steps", "evaluations"):
        assert drawn[name] == loaded[name], f"{what}: {name}"
    assert [d[1] for d in drawn["decisions"]] == [d[1] for d in loaded["decisions"]], what
    until = min(drawn["until"], loaded["until"])
    for at in _between(loaded["water"], until):
        assert _level(drawn["water"], at) == _level(loaded["water"], at), f"{what}: waterlevel at {at}"
    for one, other in zip(drawn["lanes"], loaded["lanes"], strict=True):
        for at in _between(other["spans"], until):
            assert _role(one["spans"], at) == _role(other["spans"], at), f"{what}: {other['name']} at {at}"
        assert _is_open(one["spans"]) == _is_open(other["spans"]), f"{what}: the end of {other['name']}"


def _between(points: Iterable[Any], until: float) -> list[float]:
    """Moments between changes, away from them by more than a bin of the waterlevel."""
    times = sorted({point[0] for point in points if point[0] < until} | {until})
    return [(sooner + later) / 2 for sooner, later in pairwise(times) if later - sooner > 1.0]


def _level(points: list[Any], at: float) -> int:
    return next((level for t, level in reversed(points) if t <= at), 0)


def _role(spans: list[Any], at: float) -> str:
    return next((role for start, end, role, _ in spans if start <= at and (end is None or end > at)), "")


def _is_open(spans: list[Any]) -> bool:
    return bool(spans) and spans[-1][1] is None


def caught_up(page: Page, run: Run) -> None:
    seq = Run.objects.get(pk=run.pk).event_seq
    becomes_true(page, f"gyre.feed.seq === {seq}")


@pytest.fixture
def watched(page: Page, run: Run) -> Page:
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-live-text]")).to_have_text("live")
    return page


def test_every_kind_of_event_draws_what_a_fresh_load_draws(watched: Page, run: Run) -> None:
    for kind in [kind for kind in E if kind not in ENDS] + [E.RUN_FINISHED]:
        happen(run, kind)
        caught_up(watched, run)
        compare(watched, kind)


@pytest.mark.parametrize("how", ["lost", "doubled"])
def test_rings_that_are_lost_or_doubled_change_nothing_in_the_picture(
    watched: Page, run: Run, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = events.ring

    def rung(run_id: int, seq: int) -> None:
        for _ in range({"lost": 0, "doubled": 2}[how]):
            ring(run_id, seq)

    monkeypatch.setattr(events, "ring", rung)
    for kind in E:
        if kind not in STATES:
            happen(run, kind)
    caught_up(watched, run)
    compare(watched, how)


def test_a_switch_whose_rows_are_older_than_the_last_message_is_drawn_where_it_was(watched: Page, run: Run) -> None:
    happen(run, E.ROLE_CHANGE_STARTED, ago_s=1.0)
    caught_up(watched, run)
    compare(watched, "begun")
    happen(run, E.DECISION_MADE)
    caught_up(watched, run)
    watched.wait_for_timeout(3_500)  # beyond what a message reaches back
    happen(run, E.DECISION_MADE)
    caught_up(watched, run)
    happen(run, E.ROLE_CHANGE_FINISHED, ago_s=3.4)
    caught_up(watched, run)
    compare(watched, "ended")


def test_a_level_that_lasts_is_drawn_level_until_it_changes(watched: Page, run: Run) -> None:
    before = watched.evaluate("gyre.chart.data.water.at(-1)[1]")
    watched.wait_for_timeout(3_500)
    happen(run, E.GROUP_DISPATCHED)
    caught_up(watched, run)
    line = watched.locator(".w-line").get_attribute("d") or ""
    assert "L" not in line, "a slope between two levels"
    compare(watched, "dispatched")
    assert watched.evaluate("gyre.chart.data.water.at(-1)[1]") == before + 3


def test_the_list_of_runs_and_its_count_follow_without_a_reload(page: Page, run: Run) -> None:
    page.goto("/")
    expect(page.locator("#nav-live")).to_have_text("1 live")
    pause_run(run, user=None, reason="a break")
    expect(page.locator("#runs-list .pill").first).to_have_text("paused")
    Run.objects.filter(pk=run.pk).update(state="stopped")
    expect(page.locator("#run-chips")).to_contain_text("stopped")
    expect(page.locator("#nav-live")).to_have_text("")
