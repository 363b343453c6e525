"""The live feed: snapshot + events = new snapshot, with lost rings, reconnects and listeners that fall behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth import get_user_model
from django.utils import timezone

from agents import events
from agents.events import EventKind
from agents.models import Execution, Run
from agents.web.access import ALL_SCOPES, Viewer
from gyreweb.live import updates
from gyreweb.pages import fragments
from gyreweb.pages.facts import RunFacts
from scheduler.models import Decision
from tests.live.conftest import Listen, until
from tests.support.demo_run import demo_override
from tests.support.happening import happen

EVERYONE = Viewer(None, None, ALL_SCOPES)


def _snapshot(run_id: int, page: str, now: Any) -> dict[str, str]:
    facts = RunFacts(Run.objects.get(pk=run_id), now)
    return {f.name: fragments.render(f, facts) for f in fragments.FRAGMENTS if page in f.pages}


@pytest.mark.parametrize("page", sorted(fragments.EVERY_PAGE))
def test_snapshot_and_events_make_the_new_snapshot_for_every_event_kind(
    run: Run, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_override(run)
    now = timezone.now()
    monkeypatch.setattr("gyreweb.templatetags.gyre.timezone", SimpleNamespace(now=lambda: now))  # ages stand still
    for kind in EventKind:
        before = _snapshot(run.pk, page, now)
        seq = Run.objects.get(pk=run.pk).event_seq
        happen(run, kind)
        after = _snapshot(run.pk, page, now)
        message = updates.updates_after(EVERYONE, run.pk, seq, page, now)
        assert message is not None
        assert message["seq"] == seq + 1
        changed = {name for name in after if after[name] != before[name]}
        assert changed <= set(message["fragments"]), f"{kind} changes {changed} on {page}"


def test_every_event_kind_is_drawn_somewhere_or_is_a_call(run: Run) -> None:
    drawn = {kind for fragment in fragments.FRAGMENTS for kind in fragment.events}
    assert set(EventKind) - drawn == fragments.CALL_EVENTS


def test_points_and_the_old_chart_make_the_new_chart(run: Run) -> None:
    now = timezone.now()
    seq = run.event_seq
    happen(run, EventKind.ROLE_CHANGE_STARTED)
    happen(run, EventKind.GROUP_DISPATCHED)
    message = updates.updates_after(EVERYONE, run.pk, seq, "run", now)
    assert message is not None
    run.refresh_from_db()
    assert message["points"]["water"][-1][1] == run.waterlevel
    assert [lane["index"] for lane in message["points"]["lanes"]] == [0, 1]
    assert message["num_new"] == 0


async def test_a_listener_first_gets_what_it_missed_since_the_page(run: Run, listen: Listen) -> None:
    listener = await listen(run.pk, since=run.event_seq - 2)
    message = await until(listener, "update")
    assert message["seq"] == run.event_seq
    assert "facts" in message["fragments"]


async def test_a_ring_brings_the_change_as_html_and_points(run: Run, listen: Listen) -> None:
    listener = await listen(run.pk, since=run.event_seq)
    await database_sync_to_async(happen)(run, EventKind.DECISION_MADE)
    message = await until(listener, "update")
    assert message["seq"] == run.event_seq + 1
    assert "1 × 6 &lt; W 9" in message["fragments"]["decisions"]
    assert message["points"]["decisions"][-1][3] == "cell 1 stays in rollout"


async def test_a_lost_ring_is_made_good_by_the_beat(run: Run, listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = await listen(run.pk, since=run.event_seq)
    monkeypatch.setattr(events, "ring", lambda run_id, seq: None)
    quiet = await until(listener, "beat")
    await database_sync_to_async(happen)(run, EventKind.RUN_PAUSED)
    message = await until(listener, "update")
    assert quiet["seq"] + 1 == message["seq"] == run.event_seq + 1
    assert "paused" in message["fragments"]["state"]
    assert message["state_changed"]


async def test_many_events_at_once_come_as_one_update(run: Run, listen: Listen) -> None:
    def burst() -> None:
        for _ in range(40):
            events.record(run.pk, EventKind.EXECUTION_LAUNCHED, {})

    await database_sync_to_async(burst)()
    listener = await listen(run.pk, since=run.event_seq, page="executions")
    message = await until(listener, "update")
    assert (message["seq"], message["num_new"]) == (run.event_seq + 40, 40)


async def test_a_listener_that_is_too_far_behind_is_told_to_reload(
    run: Run, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "MAX_EVENTS", 5)
    listener = await listen(run.pk, since=0)
    message = await until(listener, "reload")
    assert message == {"type": "reload", "seq": run.event_seq}


async def test_without_news_only_beats_come(run: Run, listen: Listen) -> None:
    listener = await listen(run.pk, since=run.event_seq)
    kinds = [(await listener.receive_json_from(timeout=20))["type"] for _ in range(3)]
    assert kinds == ["beat"] * 3


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "file://"])
async def test_another_origin_is_refused(run: Run, listen: Listen, origin: str) -> None:
    assert not (await listen(run.pk, origin=origin)).connected


@pytest.mark.parametrize(
    ("run_id", "since", "page", "session"),
    [
        (None, 0, "run", "sessionid=unknown"),
        (999_999, 0, "run", None),
        (None, "x", "run", None),
        (None, 0, "secrets", None),
    ],
)
async def test_strangers_and_nonsense_are_told_that_there_is_nothing(
    run: Run, listen: Listen, cookie: str, run_id: Any, since: Any, page: str, session: Any
) -> None:
    listener = await listen(run_id or run.pk, since=since, page=page, session=session or cookie)
    closed = await listener.receive_output(timeout=20)
    assert (closed["type"], closed["code"]) == ("websocket.close", 4404)


async def test_what_a_listener_sends_changes_nothing(run: Run, listen: Listen) -> None:
    listener = await listen(run.pk, since=run.event_seq)
    await listener.send_json_to({"type": "run.event", "run": run.pk, "seq": 10**9})
    await listener.send_json_to({"stop": True})
    assert (await listener.receive_json_from(timeout=20))["type"] == "beat"
    state = await database_sync_to_async(lambda: Run.objects.get(pk=run.pk).state)()
    assert state == "running"


async def test_the_counts_of_the_menu_and_of_the_decisions_follow_the_feed(run: Run, listen: Listen) -> None:
    executions, decisions = await database_sync_to_async(_counts)(run)
    listener = await listen(run.pk, since=run.event_seq)
    await database_sync_to_async(happen)(run, EventKind.GROUP_DISPATCHED)
    assert (await until(listener, "update"))["fragments"]["num_executions"] == str(executions + 3)
    await database_sync_to_async(happen)(run, EventKind.DECISION_MADE)
    assert (await until(listener, "update"))["fragments"]["num_decisions"] == str(decisions + 1)


def _counts(run: Run) -> tuple[int, int]:
    return Execution.objects.filter(run=run).count(), Decision.objects.filter(run=run).count()


async def test_a_listener_who_leaves_the_project_hears_nothing_more(run: Run, listen: Listen, cookie: str) -> None:
    def demote() -> None:
        get_user_model().objects.update(is_superuser=False)

    listener = await listen(run.pk)
    await until(listener, "beat")
    await database_sync_to_async(demote)()
    await database_sync_to_async(events.record)(run.pk, EventKind.RUN_PAUSED, {"reason": "secret"})
    closed = [message async for message in rest_of(listener)][-1]
    assert closed == {"type": "websocket.close", "code": 4404}


async def rest_of(listener: Any) -> Any:
    """Raw messages up to the one that closes the connection."""
    for _ in range(50):
        message = await listener.receive_output(timeout=20)
        yield {name: message[name] for name in ("type", "code") if name in message}
        if message["type"] == "websocket.close":
            return
