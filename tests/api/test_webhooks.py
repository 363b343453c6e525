"""Webhooks: what is told to whom, signed, again after a failure, and logged."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from agents import events
from agents.models import Project, Run
from gyreweb.env import REPO_ROOT
from gyreweb.webhooks import sending, tasks
from gyreweb.webhooks.actions import create_webhook
from gyreweb.webhooks.models import Delivery, Webhook
from gyreweb.webhooks.queueing import queue_new
from gyreweb.webhooks.sending import PAUSES, send_due
from gyreweb.webhooks.topics import NAMES, TEST
from scheduler import wakes
from tests.api.conftest import SMALL
from tests.support.demo_run import demo_project, demo_run
from tests.support.waiting import wait_for

Machine = Callable[..., Any]


class Receiver:
    """An endpoint on this machine. It answers with `status` and keeps what it was sent."""

    def __init__(self) -> None:
        self.status = 204
        self.seen: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.seen.append((dict(self.headers.items()), body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join(20)


@pytest.fixture
def hook(project: Project, run: Run, receiver: Receiver) -> Webhook:
    return create_webhook(project=project, user=None, url=receiver.url, topics=[])


def _happens(run: Run, kind: events.EventKind, **payload: Any) -> None:
    events.record(run.pk, kind, payload)


def _due_again() -> None:
    Delivery.objects.filter(state="queued").update(next_at=timezone.now() - timedelta(seconds=1))


def test_what_happens_is_told_once_signed_and_in_order(hook: Webhook, run: Run, receiver: Receiver) -> None:
    _happens(run, events.EventKind.ALARM_RAISED, code="abort_storm", severity="bad")
    _happens(run, events.EventKind.EXECUTION_FINISHED, execution=1)
    _happens(run, events.EventKind.RUN_STOPPED, by="ann", reason="enough")
    assert [queue_new(), queue_new(), send_due(), send_due()] == [2, 0, 2, 0]
    told = [Verifier(hook.secret).verify(body, headers) for headers, body in receiver.seen]
    assert [message["type"] for message in told] == ["alarm.raised", "run.stopped"]
    assert told[0]["data"]["event"] == {"code": "abort_storm", "severity": "bad"}
    assert (told[1]["data"]["run"], told[1]["data"]["step"]) == (run.pk, run.version)
    assert {row.state for row in Delivery.objects.all()} == {"delivered"}
    headers, body = receiver.seen[0]
    with pytest.raises(WebhookVerificationError):
        Verifier(hook.secret).verify(body.replace(b"bad", b"odd"), headers)


def test_only_wanted_topics_of_ones_own_project_from_now_on_are_told(project: Project, run: Run) -> None:
    hook = create_webhook(project=project, user=None, url="https://example.org/x", topics=["run.stopped"])
    other = demo_run(project=demo_project("elsewhere"))
    later = Run.objects.create(
        project=project, task_set=run.task_set, name="later", config=run.config, seed=1, policy_kind=run.policy_kind
    )
    for happened in (run, other, later):
        _happens(happened, events.EventKind.RUN_PAUSED)
        _happens(happened, events.EventKind.RUN_STOPPED)
    assert queue_new() == 2
    assert [(row.run_id, row.topic) for row in hook.deliveries.order_by("pk")] == [
        (run.pk, "run.stopped"), (later.pk, "run.stopped"),
    ]  # fmt: skip


def test_a_message_that_fails_is_sent_again_ever_more_seldom_and_then_given_up(
    hook: Webhook, run: Run, receiver: Receiver
) -> None:
    receiver.status = 500
    _happens(run, events.EventKind.RUN_STOPPED)
    queue_new()
    for number, pause in enumerate(PAUSES, start=1):
        assert send_due() == 1
        row = Delivery.objects.get()
        assert (row.state, row.attempts, row.last_status, row.last_error) == ("queued", number, 500, "it answered 500")
        assert timedelta(0) <= row.next_at - timezone.now() <= pause
        assert send_due() == 0
        _due_again()
    assert send_due() == 1
    assert Delivery.objects.get().state == "failed"
    assert len({(headers["webhook-id"], body) for headers, body in receiver.seen}) == 1
    assert len(receiver.seen) == len(PAUSES) + 1


def test_an_endpoint_that_is_away_costs_a_try_and_one_that_is_gone_disables(
    hook: Webhook, run: Run, receiver: Receiver
) -> None:
    Webhook.objects.filter(pk=hook.pk).update(url="http://127.0.0.1:1/x")
    _happens(run, events.EventKind.RUN_STOPPED)
    queue_new()
    assert send_due() == 1
    row = Delivery.objects.get()
    assert (row.state, row.last_status, row.last_error[:12]) == ("queued", None, "ConnectError")
    Webhook.objects.filter(pk=hook.pk).update(url=receiver.url)
    receiver.status = 410
    _due_again()
    assert send_due() == 1
    hook.refresh_from_db()
    assert (hook.enabled, hook.disabled_reason) == (False, "its endpoint answered 410 Gone")
    _happens(run, events.EventKind.RUN_PAUSED)
    assert (queue_new(), send_due()) == (0, 0)


def test_a_message_that_is_being_sent_is_taken_by_nobody_else(hook: Webhook, run: Run) -> None:
    _happens(run, events.EventKind.RUN_STOPPED)
    queue_new()
    assert sending._claim() is not None
    assert sending._claim() is None
    _due_again()  # its worker was lost, and its lease is over
    assert sending._claim() is not None


def test_the_scheduler_wakes_the_worker_only_where_there_is_a_webhook(
    project: Project, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    monkeypatch.setattr(wakes, "wake", woken.append)
    tasks._wake_if_needed()
    assert woken == []
    create_webhook(project=project, user=None, url=receiver.url, topics=[])
    tasks._wake_if_needed()
    assert woken == [f"{tasks.__name__}.deliver"]


def test_a_real_worker_sends_when_it_is_woken(database_url: str, receiver: Receiver, tmp_path: Path) -> None:
    run = demo_run(shape=SMALL)
    hook = create_webhook(project=run.project, user=None, url=receiver.url, topics=[])
    _happens(run, events.EventKind.RUN_STOPPED)
    command = [sys.executable, "-m", "celery", "-A", "gyreweb.celery", "worker", "--pool", "solo", "-Q", "control"]
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=REPO_ROOT, stdout=log, stderr=log)
    try:

        def is_told() -> bool:
            tasks._wake_if_needed()  # a wake before the worker listens is lost with its queue
            return bool(receiver.seen)

        wait_for(is_told, lambda: (tmp_path / "log").read_text()[-2000:])
    finally:
        worker.terminate()
        worker.wait(30)
    headers, body = receiver.seen[0]
    assert Verifier(hook.secret).verify(body, headers)["type"] == "run.stopped"
    assert len(receiver.seen) == 1


def test_webhooks_are_made_tested_listed_and_deleted_over_rest(
    machine: Machine, project: Project, receiver: Receiver
) -> None:
    client = machine("admin")
    wanted = {"url": receiver.url, "topics": ["run.finished", "alarm.raised"]}
    made = client.post("/api/v1/webhooks", wanted, content_type="application/json")
    assert made.status_code == 201, made.json()
    secret, path = made.json()["secret"], f"/api/v1/webhooks/{made.json()['id']}"
    assert secret.startswith("whsec_")
    listed = client.get("/api/v1/webhooks")
    assert listed.json()["results"][0]["topics"] == ["alarm.raised", "run.finished"]
    assert secret not in listed.content.decode()
    tested = client.post(f"{path}/test")
    assert (tested.status_code, tested.json()["state"]) == (202, "queued")
    assert send_due() == 1
    headers, body = receiver.seen[0]
    assert Verifier(secret).verify(body, headers)["type"] == "webhook.test"
    log = client.get(f"{path}/deliveries?state=delivered").json()["results"]
    assert [(row["message_id"], row["last_status"]) for row in log] == [(headers["webhook-id"], 204)]
    assert client.get(f"{path}/deliveries?state=failed").json()["results"] == []
    assert client.delete(path).status_code == 204
    assert not Delivery.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"url": "http://example.org/x"}, 409, "https://"),
        ({"url": "https://ann:secret@example.org/x"}, 409, "no password"),
        ({"url": "ftp://example.org/x"}, 409, "https://"),
        ({"url": "nowhere"}, 422, "valid URL"),
        ({"url": "https://example.org/x", "topics": ["run.ended"]}, 422, "run.ended"),
        ({"url": "https://example.org/x", "topic": []}, 422, "known fields: url, topics, project"),
    ],
)
def test_an_address_or_topic_that_cannot_be_is_refused(machine: Machine, body: Any, status: int, words: str) -> None:
    reply = machine("admin").post("/api/v1/webhooks", body, content_type="application/json")
    assert (reply.status_code, words in json.dumps(reply.json())) == (status, True), reply.json()
    assert not Webhook.objects.exists()


def test_webhooks_are_for_administrators_of_their_project(machine: Machine, hook: Webhook) -> None:
    assert machine("read", "launch", "operate").get("/api/v1/webhooks").status_code == 403
    stranger = machine("admin", of=demo_project("elsewhere"))
    assert stranger.get("/api/v1/webhooks").json()["results"] == []
    for method, rest in (("delete", ""), ("post", "/test"), ("get", "/deliveries")):
        assert getattr(stranger, method)(f"/api/v1/webhooks/{hook.pk}{rest}").status_code == 404


def test_the_admin_tests_a_webhook_shows_its_log_and_not_its_secret(admin_client: Client, hook: Webhook) -> None:
    admin_client.post("/admin/webhooks/webhook/", {"action": "test", "_selected_action": [hook.pk]})
    assert Delivery.objects.get().topic == "webhook.test"
    assert "webhook.test" in admin_client.get("/admin/webhooks/delivery/").content.decode()
    page = admin_client.get(f"/admin/webhooks/webhook/{hook.pk}/change/").content.decode()
    assert hook.url in page
    assert hook.secret not in page
    Webhook.objects.update(enabled=False, disabled_reason="gone")
    reply = admin_client.post(
        "/admin/webhooks/webhook/", {"action": "test", "_selected_action": [hook.pk]}, follow=True
    )
    assert "is disabled (gone)" in reply.content.decode()
    assert Delivery.objects.count() == 1


def test_the_page_for_receivers_names_every_topic_and_pause() -> None:
    page = (REPO_ROOT / "docs" / "howto" / "webhooks.md").read_text()
    assert [name for name in (*NAMES, TEST) if f"`{name}`" not in page] == []
    words = {5: "5 s", 300: "5 min", 1800: "30 min", 7200: "2 h", 36_000: "10 h", 86_400: "24 h"}
    *most, last = (words[int(pause.total_seconds())] for pause in PAUSES)
    assert f"after {', '.join(most)} and {last}" in page
