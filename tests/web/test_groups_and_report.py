"""Groups, a run's report, quarantine, and the export links, on pages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from agents.models import Call, Execution, Group, Project, Run
from agents.report import report
from agents.web import groups as group_queries
from tests.processor.records import Made
from tests.support.demo_run import demo_task_set
from tests.support.processed_run import processed_run


@pytest.fixture
def made(db: None) -> Made:
    return processed_run()


def text_of(browser: Client, path: str) -> str:
    reply = browser.get(path)
    assert reply.status_code == 200, path
    return reply.content.decode()


def test_groups_are_listed_with_votes_and_the_effect_of_unresolved_executions(browser: Client, made: Made) -> None:
    reply = browser.get(f"/runs/{made.run.pk}/groups/")
    rows = {row.group.number: row for row in reply.context["rows"]}
    assert sorted(rows) == [0, 1, 3]
    first = rows[0]
    assert (first.group.num_votes, first.num_executions, first.num_unresolved) == (3, 4, 1)
    assert len(first.strip.dots) == 3
    text = reply.content.decode()
    assert f'href="/runs/{made.run.pk}/groups/training/0/"' in text
    assert f"{first.effect.mean_shift:+.3f}" in text


def test_groups_are_filtered_from_the_query_string(browser: Client, made: Made) -> None:
    def numbers(query: str) -> list[int]:
        return [row.group.number for row in browser.get(f"/runs/{made.run.pk}/groups/{query}").context["rows"]]

    assert numbers("?unresolved=1") == [0]
    assert numbers("?state=ready") == [1]
    assert numbers("?kind=evaluation") == [2]
    assert numbers("?q=3") == [3]
    assert "No group matches" in text_of(browser, f"/runs/{made.run.pk}/groups/?q=nothing")


def test_a_bar_of_the_histogram_leads_to_exactly_its_executions(browser: Client, made: Made) -> None:
    found = group_queries.histogram(made.run, "training")
    assert (found.num_votes, found.num_without, found.low, found.high) == (5, 1, 0.0, 1.0)
    for bar in found.bins:
        reply = browser.get(f"/runs/{made.run.pk}/executions/?{bar.link}")
        assert len(reply.context["rows"]) == bar.count, bar
    assert sum(bar.count for bar in found.bins) == 5


def test_a_histogram_stretches_over_negative_and_large_rewards(made: Made) -> None:
    Execution.objects.filter(run=made.run, reward=1.0).update(reward=3.0)
    Execution.objects.filter(run=made.run, reward=0.25).update(reward=-1.0)
    found = group_queries.histogram(made.run, "training")
    assert (found.low, found.high) == (-1.0, 3.0)
    assert (found.bins[0].count, found.bins[-1].count) == (1, 1)


def test_a_group_shows_its_executions_side_by_side(browser: Client, made: Made) -> None:
    text = text_of(browser, f"/runs/{made.run.pk}/groups/training/0/")
    for execution in Execution.objects.filter(group__number=0, run=made.run):
        assert f'href="/executions/{execution.pk}/"' in text
    assert "counted as zero" in text
    assert browser.get(f"/runs/{made.run.pk}/groups/training/99/").status_code == 404


def test_the_report_names_each_baseline_and_offers_every_table(browser: Client, made: Made) -> None:
    reply = browser.get(f"/runs/{made.run.pk}/report/")
    text = reply.content.decode()
    assert all(saving.baseline in text for saving in report(made.run).savings)
    assert "16.67%" in text, "unresolved share"
    links = re.findall(r'href="(/api/v1/runs/\d+/exports/[^"]+)"', text)
    assert len(links) == 19
    assert all(browser.get(link).status_code == 200 for link in links)


def test_quarantined_calls_are_listed_with_their_reason_as_text(browser: Client, made: Made) -> None:
    text = text_of(browser, f"/runs/{made.run.pk}/quarantine/")
    assert "=HYPERLINK(&quot;http://example.org&quot;)" in text
    assert text.count("data-row") == 4
    assert "No call matches" in text_of(browser, f"/runs/{made.run.pk}/quarantine/?reason=nothing")


def test_a_false_fork_shows_the_first_tokens_that_differ(browser: Client, made: Made) -> None:
    Call.objects.filter(false_fork=True).exclude(execution__index=0).update(false_fork=False)
    call = Call.objects.get(execution__run=made.run, false_fork=True)
    reply = browser.get(f"/runs/{made.run.pk}/quarantine/?list=false_forks")
    (row,) = reply.context["rows"]
    found = row["divergence"]
    assert (found.call.pk, found.of_call, found.position) == (call.pk, 4, 0)
    assert (found.expected, found.found) == ([60, 8], [70])
    assert "60 8" in reply.content.decode()


@pytest.mark.parametrize(
    ("page", "next_step"),
    [
        ("groups/", "make status"),
        ("report/", "running executions"),
        ("quarantine/", "manage.py verify_run"),
        ("quarantine/?list=false_forks", "No false fork"),
    ],
)
def test_an_empty_page_says_what_to_do_next(browser: Client, project: Project, page: str, next_step: str) -> None:
    from scheduler import config

    settings = config.preset("quickstart").model_dump(mode="json")
    run = Run.objects.create(
        project=project, task_set=demo_task_set(), name="fresh", config=settings, seed=1, policy_kind="elastic"
    )
    assert next_step in text_of(browser, f"/runs/{run.pk}/{page}")


def test_the_executions_page_exports_what_it_shows(browser: Client, made: Made) -> None:
    reply = browser.get(f"/runs/{made.run.pk}/executions/?outcome=unresolved")
    assert reply.context["num_exported"] == 1
    text = reply.content.decode()
    assert f"/api/v1/runs/{made.run.pk}/exports/executions.csv?outcome=unresolved" in text


def test_the_pages_cost_the_same_queries_for_more_groups(browser: Client, made: Made) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def count(path: str) -> int:
        browser.get(path)
        with CaptureQueriesContext(connection) as captured:
            browser.get(path)
        return len(captured.captured_queries)

    paths = [f"/runs/{made.run.pk}/{page}" for page in ("groups/", "report/", "quarantine/", "groups/training/0/")]
    before: dict[str, Any] = {path: count(path) for path in paths}
    for _ in range(5):
        made.group(3)
    assert Group.objects.count() == 9
    assert {path: count(path) for path in paths} == before
    assert max(before.values()) <= 24, before


def test_the_overview_says_what_leaving_unresolved_executions_out_did(browser: Client, made: Made) -> None:
    reply = browser.get(f"/runs/{made.run.pk}/")
    found = reply.context["facts"].exclusion
    assert (found.num_affected, round(found.mean_shift, 6)) == (1, round(0.375 / 4, 6))
    assert "group means +0.094" in reply.content.decode()
    assert browser.get(f"/api/v1/runs/{made.run.pk}/metrics").json()["unresolved_mean_shift"] == found.mean_shift
