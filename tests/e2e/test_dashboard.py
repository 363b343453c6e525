"""What a person does in a browser: sign in, launch with a mistake, watch a run, read an execution."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Browser, Page, expect

from agents import events
from agents.actions.change_run_state import pause_run
from agents.events import EventKind
from agents.models import Call, Run
from scheduler.models import Decision
from tests.e2e.conftest import becomes_true


def test_a_wrong_password_is_told_and_a_right_one_leads_to_the_page_that_was_asked_for(
    chromium: Browser, site: str, run: Run, django_user_model: Any
) -> None:
    django_user_model.objects.create_superuser("root", "", "secret")
    tab = chromium.new_context(base_url=site).new_page()
    tab.goto(f"/runs/{run.pk}/")
    tab.fill("[name=username]", "root")
    tab.fill("[name=password]", "wrong")
    tab.click("button:has-text('Sign in')")
    expect(tab.get_by_role("alert")).to_contain_text("do not match")
    tab.fill("[name=password]", "secret")
    tab.click("button:has-text('Sign in')")
    expect(tab.locator("h1")).to_have_text(run.name)
    tab.context.close()


def test_the_launch_form_says_what_is_wrong_in_place_and_starts_nothing(page: Page) -> None:
    page.goto("/runs/new/")
    page.fill("#id_cells", "0")
    page.press("#id_cells", "Tab")
    expect(page.locator("#p_cells")).to_contain_text("greater than or equal to 1")
    expect(page.locator("#problems")).to_contain_text("Nothing was started")
    page.click("button:has-text('Launch')")
    expect(page.locator("#p_cells")).to_be_visible()
    assert Run.objects.count() == 0
    page.fill("#id_cells", "2")
    page.press("#id_cells", "Tab")
    expect(page.locator("#problems .alarm")).to_have_count(0)
    page.select_option("[name=preset]", "mini-swe")
    expect(page.locator("#id_harness")).to_have_value("mini-swe-agent")


def test_a_launch_opens_the_new_runs_page(page: Page) -> None:
    page.goto("/runs/new/?preset=quickstart")
    page.fill("[name=name]", "from the browser")
    page.click("button:has-text('Launch')")
    expect(page.locator("h1")).to_have_text("from the browser")
    expect(page.locator("#f-state")).to_contain_text("queued")


def test_the_run_page_changes_while_one_looks_and_keeps_the_readers_place(page: Page, run: Run) -> None:
    page.set_viewport_size({"width": 1440, "height": 500})
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-live-text]")).to_have_text("live")
    page.evaluate("scrollTo(0, 400)")
    place = "document.querySelector('#reward').getBoundingClientRect().top"
    before = page.evaluate(place)
    Decision.objects.create(
        run=run, number=9000, evaluation_number=1, kind="leave_rollout", cell_index=1, accepted=False,
        reason_code="capacity", reason="cell 1 stays in rollout: <b>1 x 6</b> < W 9",
    )  # fmt: skip
    events.record(run.pk, EventKind.DECISION_MADE, {"number": 9000})
    expect(page.locator("#f-decisions .dec").first).to_contain_text("<b>1 × 6</b> < W 9")
    pause_run(run, user=None, reason="the disk is full")
    expect(page.locator("#f-state")).to_contain_text("paused")
    expect(page.locator("#f-alarms")).to_contain_text("the disk is full")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert abs(page.evaluate(place) - before) < 2


def test_a_reader_can_hold_the_page_and_let_it_go_on(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/")
    pill = page.locator("[data-live-text]")
    expect(pill).to_have_text("live")
    page.keyboard.press("p")
    expect(pill).to_contain_text("paused")
    pause_run(run, user=None, reason="for a look")
    becomes_true(page, "window.gyre.feed.held?.state_changed === true")
    expect(page.locator("#f-state")).to_contain_text("running")
    page.keyboard.press("p")
    expect(page.locator("#f-state")).to_contain_text("paused")


def test_what_the_feed_added_is_the_chart_that_a_reload_draws(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-live-text]")).to_have_text("live")
    events.record(run.pk, EventKind.GROUP_DISPATCHED, {})
    becomes_true(page, f"window.gyre.feed.seq >= {run.event_seq + 1}")
    parts = "({lanes: d.lanes.map(l => l.spans.map(s => s.slice(0, 3))), steps: d.steps, decisions: d.decisions})"
    merged = page.evaluate(f"(d => {parts})(window.gyre.chart.data)")
    page.evaluate("window.gyre.chart.reload().then(() => true)")
    assert page.evaluate(f"(d => {parts})(window.gyre.chart.data)") == merged


def test_the_cursor_reads_decisions_by_keyboard(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/")
    page.focus("#water")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#water .tip")).to_contain_text("W ")
    expect(page.locator("#water-said")).not_to_be_empty()
    page.keyboard.press("Escape")
    expect(page.locator("#water .tip")).to_be_hidden()


def test_an_execution_is_read_from_tree_to_tokens_and_its_link_can_be_shared(page: Page, run: Run) -> None:
    execution = Call.objects.filter(execution__run=run).first().execution_id
    page.goto(f"/executions/{execution}/")
    expect(page.locator("#tree .tr.drawn")).to_have_count(5)
    page.click("#tree .line:has-text('calls 3–6')")
    expect(page.locator(".card h2", has_text="Call 6")).to_be_visible()
    assert page.url.endswith("?call=6")
    page.click(".seg a:has-text('tokens')")
    expect(page.locator(".tok .t").first).to_be_visible()
    page.keyboard.press("l")
    expect(page.locator("[data-readout]")).to_contain_text("token ")
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    expect(page.locator(".card h2", has_text="Call 6")).to_be_visible()
    page.fill("[data-filter]", "summary")
    expect(page.locator("#tree .tr:visible")).to_have_count(1)


def test_hostile_text_does_nothing_in_a_browser(page: Page, run: Run) -> None:
    bad = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    call = Call.objects.filter(execution__run=run, number=9).first()
    Call.objects.filter(pk=call.pk).update(reply={"content": bad}, messages=[{"role": "tool", "content": bad}])
    for view in ("transcript", "tokens"):
        page.goto(f"/executions/{call.execution_id}/?call=9&view={view}")
        assert "owned" not in page.title()
    page.goto(f"/executions/{call.execution_id}/?call=9")
    expect(page.locator(".msg.own.policy pre")).to_have_text(bad)


def test_keys_lead_through_pages_and_rows(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/executions/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr.at")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/executions/*/")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url(lambda url: url.count("/") == 3, wait_until="load")
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()


def test_no_page_is_wider_than_a_phone(page: Page, run: Run) -> None:
    execution = Call.objects.filter(execution__run=run).first().execution_id
    page.set_viewport_size({"width": 390, "height": 844})
    tabs = ("", "executions/", "groups/", "cells/", "decisions/", "batches/", "report/", "config/", "quarantine/")
    for path in [
        "/",
        "/runs/new/",
        "/simulations/",
        "/api/docs/",
        f"/executions/{execution}/",
        *(f"/runs/{run.pk}/{tab}" for tab in tabs),
    ]:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_a_table_that_scrolls_sideways_is_named_and_reachable_only_while_it_does(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/cells/")
    region = page.get_by_role("region", name="Cells, scrolls sideways")
    expect(page.locator(".scroll-x").first).to_be_visible()
    expect(region).to_have_count(0)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(region).to_have_count(1)
    region.focus()
    page.keyboard.press("ArrowRight")
    becomes_true(page, "document.querySelector('.scroll-x').scrollLeft > 0")
    first = "document.querySelector('.scroll-x td').getBoundingClientRect().left"
    assert page.evaluate(f"{first} >= document.querySelector('.scroll-x').getBoundingClientRect().left")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(region).to_have_count(0)


def test_the_open_tab_is_in_sight_on_a_phone(page: Page, run: Run) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/runs/{run.pk}/config/")
    becomes_true(page, "document.querySelector('.tabs [aria-current]').getBoundingClientRect().right <= innerWidth")


def test_the_reward_chart_says_the_newest_numbers_while_nobody_points_at_it(page: Page, run: Run) -> None:
    page.goto(f"/runs/{run.pk}/")
    legend = page.locator("#reward .u-legend")
    expect(legend).to_contain_text("newest")
    last = page.locator(".row3 .numbers table").first.locator("tbody tr").last.locator("td").nth(1).text_content()
    expect(legend).to_contain_text(f"training{last}")


def test_times_are_those_of_the_reader_and_say_their_zone(chromium: Browser, page: Page, run: Run) -> None:
    cookies = page.context.cookies()
    context = chromium.new_context(timezone_id="Asia/Kolkata", base_url=page.url.split("/login")[0])
    context.add_cookies(cookies)
    tab = context.new_page()
    tab.goto(f"/runs/{run.pk}/")
    expect(tab.locator("#water .w-zone")).to_have_text("UTC+5:30")
    first = tab.locator("#f-decisions time").first
    expect(first).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\+5:30$"))
    context.close()


def test_the_timeline_draws_every_call_and_says_which_conversations_share_its_last_lane(page: Page, run: Run) -> None:
    first = Call.objects.with_tokens().filter(execution__run=run).order_by("pk").first()
    calls = Call.objects.filter(execution=first.execution)
    for number in range(100, 120):
        first.pk, first.uid, first.number, first.conversation = None, "", number, f"sub-agent-{number}-with-a-long-name"
        first.save()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/executions/{first.execution_id}/")
    lanes = calls.values("conversation").distinct().count()
    expect(page.locator("#timeline svg text", has_text=f"{lanes - 13} others")).to_be_visible()
    expect(page.locator("#timeline .tl-call")).to_have_count(calls.count())
    inside = "[...document.querySelectorAll('#timeline > svg text')].every((t) => t.getBBox().x >= 0)"
    assert page.evaluate(inside)


def test_a_menu_opens_inside_a_phones_window(page: Page, run: Run) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("", "executions/"):
        page.goto(f"/runs/{run.pk}/{path}")
        page.locator("details[data-menu] > summary").first.click()
        box = page.locator("details[data-menu][open] .sheet").bounding_box()
        assert box, path
        assert box["x"] >= 0, path
        assert box["x"] + box["width"] <= 390, path
