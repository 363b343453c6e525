"""The execution's page: verdicts, the form that asks for another one, selection and its replay."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from agents.models import Draw, Execution, KeptWorkspace, Reassessment
from agents.web.outline import REASONS
from tests.processor.records import Made
from tests.support.processed_run import processed_run


@pytest.fixture
def made(db: None) -> Made:
    return processed_run()


@pytest.fixture
def execution(made: Made) -> Execution:
    found = Execution.objects.get(run=made.run, group__number=0, index=0)
    KeptWorkspace.objects.create(execution=found, attempt=1, host="here", path="/kept/1-1.tar.zst", num_bytes=9)
    return found


def page(browser: Client, execution: Execution) -> str:
    return browser.get(f"/executions/{execution.pk}/").content.decode()


def test_every_verdict_is_shown_with_who_asked_and_why(browser: Client, execution: Execution) -> None:
    Reassessment.objects.update(effect="none on training: batch 1 has admitted the group")
    text = page(browser, execution)
    assert text.count('class="verdict') == 2
    assert "Asked for by ann: “what if”. Effect: none on training" in text
    assert (
        text.index("scored 0.500")
        < text.index("not in force")
        < text.index("scored 1.000")
        < text.index("in force</b>")
    )


def test_asking_again_needs_a_reason_and_queues_one_request(browser: Client, execution: Execution) -> None:
    assert "Assess again…" in page(browser, execution)
    browser.post(f"/executions/{execution.pk}/reassess/", {"reason": " "})
    assert Reassessment.objects.count() == 1
    browser.post(f"/executions/{execution.pk}/reassess/", {"reason": "the verifier was wrong"})
    wish = Reassessment.objects.get(state="queued")
    assert (wish.owner.get_username(), wish.reason) == ("root", "the verifier was wrong")
    text = page(browser, execution)
    assert "Assessed again</b> (queued) for root" in text
    text = browser.post(f"/executions/{execution.pk}/reassess/", {"reason": "twice"}, follow=True).content.decode()
    assert "is being assessed again already" in text
    assert Reassessment.objects.filter(state="queued").count() == 1


def test_a_request_that_failed_says_why(browser: Client, execution: Execution) -> None:
    Reassessment.objects.create(execution=execution, attempt=1, reason="x", state="failed", error="the files are gone")
    assert "the files are gone" in page(browser, execution)


def test_without_kept_files_the_page_says_what_is_missing_and_has_no_form(
    browser: Client, execution: Execution
) -> None:
    KeptWorkspace.objects.update(path="", problem="it holds 3,000.0 MB, more than retain_workspace_mb 1024")
    text = page(browser, execution)
    assert "Assess again…" not in text
    assert "was not kept: it holds 3,000.0 MB" in text


def test_a_reader_sees_verdicts_and_cannot_ask(member: Any, made: Made, execution: Execution) -> None:
    reader = member(of=made.run.project)
    assert "Assess again…" not in page(reader, execution)
    assert reader.post(f"/executions/{execution.pk}/reassess/", {"reason": "x"}).status_code == 403
    stranger = member(name="stranger", of=None)
    assert stranger.post(f"/executions/{execution.pk}/reassess/", {"reason": "x"}).status_code == 404
    assert not Reassessment.objects.filter(state="queued").exists()


def test_selection_shows_draws_bounds_and_why_the_others_were_not_selected(
    browser: Client, execution: Execution
) -> None:
    text = page(browser, execution)
    assert "<b>2</b> drawn of 2 leaves" in text
    assert "main > main-summary > sub-agent" in text
    assert "Why not selected" in text
    assert REASONS["extended"] in text
    assert REASONS["quarantined"] in text


def test_the_draws_are_replayed_on_demand(browser: Client, execution: Execution) -> None:
    assert "equal: 2 draws" in browser.get(f"/executions/{execution.pk}/replay/").content.decode()
    Draw.objects.filter(execution=execution, number=1).update(random=0.5)
    assert "draws[1].random: recorded 0.5" in browser.get(f"/executions/{execution.pk}/replay/").content.decode()
    waiting = Execution.objects.get(group__number=3)
    assert "nothing drawn yet" in browser.get(f"/executions/{waiting.pk}/replay/").content.decode()


def test_many_are_asked_for_at_once_and_each_refusal_is_counted(
    browser: Client, made: Made, execution: Execution
) -> None:
    text = browser.get(f"/runs/{made.run.pk}/executions/?kind=training").content.decode()
    assert f'action="/runs/{made.run.pk}/executions/reassess/?kind=training"' in text
    address = f"/runs/{made.run.pk}/executions/reassess/?kind=training"
    text = browser.post(address, {"reason": "a broken verifier"}, follow=True).content.decode()
    assert "1 queued; the verdicts appear" in text
    assert "5 not queued: nothing of it was kept when it was evaluated." in text
    wish = Reassessment.objects.get(state="queued")
    assert (wish.execution, wish.reason) == (execution, "a broken verifier")
    assert "To assess executions again, say why." in browser.post(address, follow=True).content.decode()
    reply = browser.post(f"/api/v1/runs/{made.run.pk}/reassess?outcome=complete", {"reason": "x"}, "application/json")
    assert (reply.status_code, reply.json()["num_queued"]) == (202, 0)
    assert "it is being assessed again already; wait for that verdict" in reply.json()["refused"]
