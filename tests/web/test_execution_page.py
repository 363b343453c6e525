"""An execution's page: what was selected and why not, hostile text made harmless, tokens in a window."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from agents.models import Call, Execution, Group, Run, Trajectory
from agents.web import calls, executions, outline
from agents.web import tokens as token_queries
from tests.support.demo_execution import fill_execution


@pytest.fixture
def execution(run: Run) -> Execution:
    return Execution.objects.get(pk=Call.objects.filter(execution__run=run).first().execution_id)


def test_hostile_text_is_escaped_and_its_control_characters_are_shown(browser: Client, execution: Execution) -> None:
    text = browser.get(f"/executions/{execution.pk}/?call=1").content.decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert 'title="control character U+202E"' in text
    assert 'title="control character U+001B"' in text


def test_hostile_text_is_harmless_wherever_an_agent_or_verifier_can_write(
    browser: Client, execution: Execution
) -> None:
    bad = "</script><img src=x onerror=alert(1)>\x1b]0;owned\x07"
    Call.objects.filter(execution=execution, number=9).update(
        messages=[{"role": bad, "name": bad, "content": [{"type": "text", "text": bad}, {"type": "image"}]}],
        reply={"content": bad, "reasoning": bad, "tool_calls": [{"name": bad, "arguments": bad}]}, error=bad,
        conversation=bad, branch_reason="x<b>", finish_reason="<b>stop",
    )  # fmt: skip
    execution.assessments.update(log=bad, reason=bad)
    Execution.objects.filter(pk=execution.pk).update(harness_log=bad, reason=bad, reason_code="<b>")
    for view in ("", "?call=9", "?call=9&view=tokens"):
        text = browser.get(f"/executions/{execution.pk}/{view}").content.decode()
        assert "<img" not in text
        assert "<b>stop" not in text
        assert "</script><img" not in text
        assert "\x1b" not in text


def test_the_outline_marks_what_was_drawn_and_says_why_not(browser: Client, execution: Execution) -> None:
    rows = browser.get(f"/executions/{execution.pk}/").context["stretches"]
    drawn = {row.last.number: row.draw for row in rows if row.draw is not None}
    assert drawn == {9: 0, 11: 1, 10: 2, 6: 3, 4: 4}
    (left,) = [row for row in rows if row.draw is None]
    assert left.last.number == 7
    assert left.why == "the reply never reached the client whole, and no later call extends it"


def test_a_link_to_a_call_opens_it_and_lights_its_row(browser: Client, execution: Execution) -> None:
    reply = browser.get(f"/executions/{execution.pk}/?call=5")
    assert reply.context["call"].number == 5
    assert [message.call for message in reply.context["messages_shown"]] == [3, 3, 3, 5, 5]
    assert "&amp;view=tokens" in reply.content.decode()
    unknown = browser.get(f"/executions/{execution.pk}/?call=999")
    assert unknown.context["call"].number == 9


def test_the_token_view_shows_the_calls_own_tokens_with_numbers(browser: Client, execution: Execution) -> None:
    reply = browser.get(f"/executions/{execution.pk}/?call=9&view=tokens")
    rows = [token for token, _ in reply.context["tokens"]]
    own = [token for token in rows if token.call == 9 and token.sampled]
    assert len(own) == Call.objects.get(execution=execution, number=9).output_tokens
    assert all(token.trained and token.logprob is not None and token.logprob <= 0 for token in own)
    assert {token.version for token in own} == {0, 1} or len({token.version for token in own}) == 1
    assert all(token.logprob is None for token in rows if not token.sampled)


def test_a_window_of_tokens_is_a_permalink_and_stays_bounded(browser: Client, execution: Execution) -> None:
    reply = browser.get(f"/executions/{execution.pk}/?call=9&view=tokens&at=10&size=25")
    positions = [token.position for token, _ in reply.context["tokens"]]
    assert positions == list(range(10, 35))
    assert (reply.context["previous_at"], reply.context["next_at"]) == (0, 35)
    far = browser.get(f"/executions/{execution.pk}/?call=9&view=tokens&at=99999999&size=999999")
    assert len(far.context["tokens"]) == 1


def test_each_sampled_token_is_marked_trained_on_every_path_that_shares_it(execution: Execution) -> None:
    parents = {fact.number: fact.parent_number for fact in calls.facts_of(execution)}
    drawn = executions.trajectories(execution)
    for trajectory in drawn:
        path = token_queries.path_tokens(execution, parents, trajectory.leaf_call)
        mask = token_queries.trained_mask(execution, parents, path, drawn)
        assert mask.sum() == path.sampled.sum()
        assert (mask <= path.sampled).all()
    lost = token_queries.path_tokens(execution, parents, 7)
    trained = token_queries.trained_mask(execution, parents, lost, drawn)
    assert not trained[lost.calls == 7].any()
    assert trained[(lost.calls < 7) & lost.sampled].all()


def test_the_path_of_a_call_is_its_parents_prefix_and_what_it_adds(execution: Execution) -> None:
    facts = calls.facts_of(execution)
    parents = {fact.number: fact.parent_number for fact in facts}
    for fact in facts:
        path = token_queries.path_tokens(execution, parents, fact.number)
        assert len(path) == fact.path_tokens
        if fact.parent_number is not None:
            parent = token_queries.path_tokens(execution, parents, fact.parent_number)
            assert (path.ids[: fact.prefix_tokens] == parent.ids[: fact.prefix_tokens]).all()


def test_an_execution_without_calls_says_so(browser: Client, run: Run) -> None:
    row = Execution.objects.filter(run=run, calls__isnull=True).first()
    text = browser.get(f"/executions/{row.pk}/").content.decode()
    assert "No calls recorded" in text
    assert f"manage.py verify_run {run.pk}" in text


def test_evaluation_executions_say_that_they_are_never_trained(execution: Execution) -> None:
    Group.objects.filter(pk=execution.group_id).update(kind=Group.Kind.EVALUATION, evaluation=1)
    execution.draws.all().delete()
    Trajectory.objects.filter(execution=execution).delete()
    execution.refresh_from_db()
    stretches = outline.build(calls.facts_of(execution))
    outline.explain(stretches, calls.selection_of(execution))
    assert {row.why for row in stretches if row.last.number != 7} == {"evaluation executions are never trained"}


def test_an_execution_that_still_runs_counts_its_recorded_calls_so_far(browser: Client, execution: Execution) -> None:
    figures = outline.figures_of(calls.facts_of(execution))
    Execution.objects.filter(pk=execution.pk).update(
        state="running", outcome="", finished_at=None, num_calls=0, num_unique_tokens=0, num_total_tokens=0
    )
    reply = browser.get(f"/executions/{execution.pk}/")
    assert reply.context["figures"] == figures
    assert figures.calls == execution.num_calls > 0
    assert figures.unique_tokens == execution.num_unique_tokens
    assert f"<b>{figures.calls}</b> calls so far" in reply.content.decode()


@pytest.mark.parametrize(
    ("state", "why"), [("running", "counted when it ends"), ("cancelled", "not counted: it was cancelled")]
)
def test_lists_show_no_zero_for_what_is_not_counted(browser: Client, run: Run, state: str, why: str) -> None:
    Execution.objects.filter(run=run).update(state=state, outcome="", num_calls=0)
    dash = f'<td class="n"><span title="{why}">–</span></td>'
    assert dash in browser.get(f"/runs/{run.pk}/executions/").content.decode()
    assert dash in browser.get(f"/runs/{run.pk}/").content.decode()


def test_cancelling_needs_a_reason_and_happens_once(browser: Client, run: Run) -> None:
    row = Execution.objects.filter(run=run, state=Execution.State.RUNNING).first()
    browser.post(f"/executions/{row.pk}/cancel/", {"reason": ""})
    row.refresh_from_db()
    assert row.state == Execution.State.RUNNING
    browser.post(f"/executions/{row.pk}/cancel/", {"reason": "stuck"})
    row.refresh_from_db()
    assert (row.state, row.reason) == (Execution.State.CANCELLED, "stuck")
    reply = browser.post(f"/executions/{row.pk}/cancel/", {"reason": "again"}, follow=True)
    assert "is already cancelled" in reply.content.decode()


def test_the_list_pages_by_key_and_keeps_its_filters(browser: Client, run: Run) -> None:
    numbers = []
    query = "?outcome=complete"
    while query:
        reply = browser.get(f"/runs/{run.pk}/executions/{query}", headers={"HX-Request": "true"})
        numbers += [row.pk for row in reply.context["rows"]]
        query = "?" + reply.context["next_query"] if reply.context["next_query"] else ""
    wanted = Execution.objects.filter(run=run, outcome="complete").order_by("-id").values_list("pk", flat=True)
    assert numbers == list(wanted)


def test_the_list_of_a_long_run_reaches_every_row_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, before = [], None
    while True:
        rows, before = executions.page(run, executions.Filters(before=before), size=4)
        seen += [row.pk for row in rows]
        if before is None:
            break
    assert seen == list(Execution.objects.filter(run=run).order_by("-id").values_list("pk", flat=True))


def test_filling_an_execution_leaves_counters_that_agree_with_its_calls(run: Run) -> None:
    row = Execution.objects.filter(run=run, calls__isnull=True, reward__isnull=False).first()
    fill_execution(row)
    assert row.num_calls == row.calls.count()
    assert row.num_unique_tokens == sum(fact.added_tokens for fact in calls.facts_of(row))
