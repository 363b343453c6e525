"""The override page: order, preview, conflict, extend, hand back; what is odd is refused and nothing is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.models import Run
from scheduler.models import Decision, Override
from tests.support.demo_run import demo_override


@pytest.fixture
def page(run: Run) -> str:
    return f"/runs/{run.pk}/overrides/"


def seen(browser: Client, page: str) -> str:
    text = browser.get(page).content.decode()
    return text.partition('name="seen" value="')[2].partition('"')[0]


def order(browser: Client, page: str, **fields: Any) -> Any:
    usual = {"what": "stay", "cell": "1", "expires_in_s": "900", "reason": "its fan is loud"}
    return browser.post(page, {"seen": seen(browser, page), **usual, **fields})


@pytest.mark.parametrize(
    ("fields", "kind", "cell", "value"),
    [
        ({"what": "rollout"}, "pin", 1, {"role": "rollout"}),
        ({"what": "training"}, "pin", 1, {"role": "training"}),
        ({"what": "stay"}, "forbid_switch", 1, {}),
        ({"what": "stay", "cell": ""}, "forbid_switch", None, {}),
        ({"what": "drain"}, "drain", 1, {}),
        ({"what": "hold"}, "hold_dispatch", None, {}),
        (
            {"what": "setting", "setting": "rho_min", "number": "0.75"},
            "setting",
            None,
            {"name": "rho_min", "value": 0.75},
        ),
        ({"what": "setting", "setting": "j_max", "number": "2"}, "setting", None, {"name": "j_max", "value": 2}),
    ],
)
def test_everything_that_can_be_ordered_becomes_an_override_with_owner_reason_and_end(
    browser: Client, run: Run, page: str, fields: dict[str, str], kind: str, cell: int | None, value: dict[str, Any]
) -> None:
    reply = order(browser, page, **fields)
    assert (reply.status_code, reply["Location"]) == (302, page)
    row = Override.objects.get(run=run)
    assert (row.kind, row.cell_index, row.value, row.unsafe) == (kind, cell, value, False)
    assert row.reason == "its fan is loud"
    assert timedelta(minutes=14) < row.expires_at - timezone.now() <= timedelta(minutes=15)


def test_a_restart_is_a_drain_of_two_minutes_whatever_end_was_chosen(browser: Client, run: Run, page: str) -> None:
    order(browser, page, what="restart", expires_in_s="86400")
    row = Override.objects.get(run=run)
    assert row.kind == "drain"
    assert row.expires_at - timezone.now() <= timedelta(minutes=2)


def test_unsafe_counts_only_when_it_is_confirmed_and_where_it_means_something(
    browser: Client, run: Run, page: str
) -> None:
    assert order(browser, page, what="training", unsafe="yes").status_code == 422
    assert not Override.objects.filter(run=run).exists()
    order(browser, page, what="training", unsafe="yes", sure="yes")
    assert Override.objects.get(run=run).unsafe
    order(browser, page, what="stay", unsafe="yes", sure="yes")
    assert not Override.objects.latest("pk").unsafe


@pytest.mark.parametrize(
    "fields",
    [
        {"reason": ""},
        {"reason": "   "},
        {"reason": "a\x1b[31mb"},
        {"what": "drain", "cell": ""},
        {"what": "drain", "cell": "77"},
        {"what": "drain", "cell": "-1"},
        {"what": "rollout", "cell": "1; DROP"},
        {"what": "setting", "setting": "rho_min", "number": ""},
        {"what": "setting", "setting": "rho_min", "number": "nan"},
        {"what": "setting", "setting": "rho_min", "number": "1e400"},
        {"what": "setting", "setting": "burst_batches", "number": "1.5"},
        {"what": "setting", "setting": "cells", "number": "4"},
    ],
)
def test_what_cannot_be_ordered_is_refused_and_what_was_typed_stays(
    browser: Client, run: Run, page: str, fields: dict[str, str]
) -> None:
    reply = order(browser, page, **{"reason": "odd <b>reason</b>", **fields})
    assert reply.status_code == 422
    text = reply.content.decode()
    assert "Nothing was ordered." in text
    assert "<b>reason</b>" not in text
    if "reason" not in fields:
        assert "odd &lt;b&gt;reason&lt;/b&gt;" in text
    assert not Override.objects.filter(run=run).exists()


def test_who_saw_other_orders_is_asked_to_look_again_and_keeps_what_was_typed(
    browser: Client, run: Run, page: str
) -> None:
    before = seen(browser, page)
    demo_override(run)
    reply = order(browser, page, seen=before, reason="kept words")
    assert reply.status_code == 409
    text = reply.content.decode()
    assert "kept words" in text
    assert Override.objects.filter(run=run).count() == 1
    again = text.partition('name="seen" value="')[2].partition('"')[0]
    assert order(browser, page, seen=again).status_code == 302


def test_sent_twice_it_is_ordered_once(browser: Client, run: Run, page: str) -> None:
    before = seen(browser, page)
    assert [order(browser, page, seen=before).status_code for _ in range(2)] == [302, 409]
    assert Override.objects.filter(run=run).count() == 1


def test_the_preview_says_what_would_be_decided_otherwise_and_writes_nothing(
    browser: Client, run: Run, page: str
) -> None:
    reply = browser.post(f"{page}preview/", {"what": "drain", "cell": "1"})
    assert "cell 1 is drained: this override" in reply.content.decode()
    assert not Override.objects.filter(run=run).exists()
    assert "Choose a cell." in browser.post(f"{page}preview/", {"what": "drain"}).content.decode()


def test_an_order_is_extended_and_handed_back_by_who_saw_its_present_version(
    browser: Client, run: Run, page: str
) -> None:
    row = demo_override(run)
    browser.post(f"{page}{row.pk}/extend/", {"row_version": row.row_version, "expires_in_s": "86400"})
    row.refresh_from_db()
    assert row.expires_at > timezone.now() + timedelta(hours=23)
    assert row.row_version == 2
    stale = browser.post(f"{page}{row.pk}/release/", {"row_version": 1}, follow=True)
    assert "changed by somebody else meanwhile" in stale.content.decode()
    browser.post(f"{page}{row.pk}/release/", {"row_version": 2})
    row.refresh_from_db()
    assert row.released_at is not None
    twice = browser.post(f"{page}{row.pk}/release/", {"row_version": 3}, follow=True)
    assert "is over already" in twice.content.decode()


def test_every_page_of_the_run_says_the_value_who_why_and_until_when(browser: Client, run: Run) -> None:
    order(browser, f"/runs/{run.pk}/overrides/", what="setting", setting="rho_min", number="0.75", reason="<i>try</i>")
    row = Override.objects.get(run=run)
    for name in ("", "executions/", "cells/", "decisions/", "overrides/", "config/"):
        text = browser.get(f"/runs/{run.pk}/{name}").content.decode()
        assert f"Override: rho_min {run.config['rho_min']:g} → 0.75" in text, name
        assert "&lt;i&gt;try&lt;/i&gt;" in text
        assert f"{row.expires_at:%Y-%m-%d %H:%M:%S} UTC" in text


def test_the_past_says_how_it_ended_and_what_came_of_it(browser: Client, run: Run, page: str) -> None:
    row = demo_override(run)
    newest = Decision.objects.filter(run=run).latest("number").number
    Decision.objects.filter(run=run, number=newest).update(
        reason_code="override", reason=f"cell 1 stays in rollout: override {row.pk} forbids switching"
    )
    browser.post(f"{page}{row.pk}/release/", {"row_version": row.row_version})
    text = browser.get(page).content.decode()
    assert f"?before={newest + 1}" in text
    assert "1 decision because of it" in text
    assert "released" in text


def test_who_may_only_look_sees_the_orders_and_can_change_none(member: Any, run: Run, page: str) -> None:
    row, reader = demo_override(run), member()
    text = reader.get(page).content.decode()
    assert row.reason in text
    assert 'id="order"' not in text
    assert reader.post(page, {"what": "hold", "reason": "x", "expires_in_s": "900"}).status_code == 403
    assert reader.post(f"{page}{row.pk}/release/", {}).status_code == 403
    assert reader.post(f"{page}{row.pk}/extend/", {"expires_in_s": "900"}).status_code == 403


def test_a_run_that_has_ended_shows_its_orders_and_takes_no_new_one(browser: Client, run: Run, page: str) -> None:
    before = seen(browser, page)
    Run.objects.filter(pk=run.pk).update(state="finished")
    assert "there is nothing to decide any more" in browser.get(page).content.decode()
    assert order(browser, page, seen=before).status_code == 422
    assert not Override.objects.filter(run=run).exists()


def test_an_order_of_another_run_is_not_found(browser: Client, run: Run, page: str) -> None:
    assert browser.post(f"{page}999999/release/", {"row_version": 1}).status_code == 404
