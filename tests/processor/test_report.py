"""The report of a run: tokens, savings against named baselines, unresolved executions, reasons (agents.report)."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from records import DONE, Made, make_run, record, record_conversation, scored

from agents.actions.finish_execution import finish_execution
from agents.core.outcome import Reason, Status, Verdict
from agents.core.roles import Role
from agents.models import Call, Run
from agents.report import group_exclusions, report
from trainers.actions.admit_group import admit_group

pytestmark = pytest.mark.django_db


@pytest.fixture
def made() -> Made:
    """One admitted group of four: two scored, one without work, one unresolved; and one group still running."""
    made = make_run(j_max=2)
    group = made.group(4)
    verdicts = [
        scored(1.0),
        scored(0.5),
        Verdict(Status.NO_WORK),
        Verdict(Status.UNRESOLVED, reason_code=Reason.EVALUATION_TIMEOUT),
    ]
    for execution, verdict in zip(group.executions.order_by("index"), verdicts, strict=True):
        record_conversation(execution)  # 20 + 3, then twice 2 + 3: 33 unique tokens, 9 sampled
        record(execution, 3, [50, 51], [9, 9], role=Role.SUB_AGENT)
        record(execution, 4, [60, 61], [8], role=Role.SUB_AGENT)
        record(execution, 5, [70], [7], role=Role.SUB_AGENT, state=Call.State.QUARANTINED)
        Call.objects.filter(execution=execution, number=5).update(error="log-probabilities are missing")
        finish_execution(execution.pk, 1, verdict, DONE)
    admit_group(made.batch().pk, group.pk)
    made.group(2)
    return made


def test_tokens_are_counted_from_recorded_to_selected(made: Made) -> None:
    tokens = report(made.run).tokens
    recorded, unique = 23 + 28 + 33 + 4 + 3 + 2, 33 + 4 + 3 + 2
    assert (tokens.executions, tokens.calls) == (4, 24)
    assert (tokens.recorded, tokens.unique, tokens.sampled) == (4 * recorded, 4 * unique, 4 * (9 + 2 + 1))
    assert (tokens.admitted_executions, tokens.sampled_admitted) == (3, 3 * 12)
    assert tokens.selectable == 2 * 12
    assert (tokens.trajectories, tokens.dummies) == (4, 1)
    assert tokens.selected in range(2 * (9 + 1), 2 * (9 + 2) + 1)


def test_each_saving_names_its_baseline_and_adds_up(made: Made) -> None:
    savings = {saving.what: saving for saving in report(made.run).savings}
    stored = savings["Sharing in storage"]
    assert (stored.baseline, stored.baseline_tokens, stored.tokens) == (
        "one prompt per call stored", 4 * 93, 4 * 42,
    )  # fmt: skip
    shared = savings["Sharing in training"]
    assert shared.baseline == "every call trained as its own full sequence"
    assert (shared.baseline_tokens, shared.tokens) == (2 * (23 + 28 + 33 + 4 + 3), 2 * (33 + 4 + 3))
    capped = savings["J_max"]
    assert (capped.baseline, capped.baseline_tokens) == ("no cap on trajectories", 2 * 40)
    assert capped.saved_tokens == capped.baseline_tokens - capped.tokens > 0
    assert savings["All together"].tokens == capped.tokens
    assert savings["All together"].saved_share == 1 - capped.tokens / shared.baseline_tokens


def test_unresolved_executions_are_shown_with_what_leaving_them_out_did(made: Made) -> None:
    found = report(made.run)
    assert (found.unresolved.num_unresolved, found.unresolved.num_executions, found.unresolved.share) == (1, 4, 0.25)
    assert found.unresolved.mean_shift == pytest.approx(0.5 - 1.5 / 4)
    (group,) = group_exclusions(made.run).values()
    assert (group.num_votes, group.mean, group.mean_as_zero) == (3, 0.5, pytest.approx(0.375))
    assert found.outcomes == {"complete": 2, "no-work": 1, "unresolved": 1}
    assert found.reason_codes["evaluation_timeout"] == 1


def test_passed_over_and_quarantined_calls_are_counted_by_reason(made: Made) -> None:
    found = report(made.run)
    assert found.exclusions == {"extended": 4, "over_j_max": 2, "quarantined": 2}
    assert found.quarantined == {"log-probabilities are missing": 4}
    assert found.draws_by_role == {"main": 2, "sub-agent": 2}
    assert (found.false_forks, found.false_fork_rate) == (0, 0.0)


def test_an_empty_run_has_a_report_of_zeros() -> None:
    found = report(make_run().run)
    assert (found.tokens.recorded, found.unresolved.share, found.false_fork_rate) == (0, 0, 0)
    assert all(saving.saved_share == 0 and saving.factor is None for saving in found.savings)


def test_the_command_prints_the_report_and_its_json(made: Made) -> None:
    text, encoded = StringIO(), StringIO()
    call_command("report", str(made.run.pk), stdout=text)
    assert "against: every leaf trained as its own full sequence" in text.getvalue()
    assert "unresolved: 1 of 4 (25.00%), in 1 of 1 groups" in text.getvalue()
    call_command("report", str(made.run.pk), "--json", stdout=encoded)
    assert json.loads(encoded.getvalue()) == json.loads(json.dumps(report(made.run).to_json()))


def test_a_report_costs_the_same_queries_for_any_run(made: Made, django_assert_max_num_queries) -> None:
    with django_assert_max_num_queries(13):
        report(Run.objects.get(pk=made.run.pk))
