"""Pages cost the same number of queries whatever the run's size; lists load no token column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.models import Call, Run
from tests.support.demo_run import demo_override, demo_run
from tests.web.conftest import SMALL

#: Session, user and navigation counts are among them. Raise one only with a reason.
BASELINE = {
    "/": 7, "/runs/{run}/": 21, "/runs/{run}/executions/": 13, "/runs/{run}/cells/": 11,
    "/runs/{run}/decisions/": 12, "/runs/{run}/batches/": 13, "/runs/{run}/config/": 10,
    "/executions/{execution}/": 15, "/executions/{execution}/?view=tokens": 21,
    "/runs/{run}/groups/": 14, "/runs/{run}/report/": 24,
}  # fmt: skip
HEAVY = ('"tokens"', 'microstep"."payload"', '"snapshot"', '"body"')


def _queries(browser: Client, path: str, run: Run) -> list[str]:
    execution = Call.objects.filter(execution__run=run).first().execution_id
    address = path.format(run=run.pk, execution=execution)
    browser.get(address)
    with CaptureQueriesContext(connection) as captured:
        assert browser.get(address).status_code == 200
    return [query["sql"] for query in captured.captured_queries]


@pytest.mark.parametrize("path", BASELINE)
def test_a_page_costs_no_more_queries_for_a_larger_run(browser: Client, run: Run, path: str) -> None:
    few = len(_queries(browser, path, run))
    larger = demo_run(project=run.project, seed=2, shape=replace(SMALL, cells=8, bursts=4, executions_per_group=6))
    demo_override(larger)
    many = _queries(browser, path, larger)
    assert len(many) <= few + (1 if "{run}" in path else 0), "\n".join(many)
    assert len(many) <= BASELINE[path], "\n".join(many)


@pytest.mark.parametrize("path", [path for path in BASELINE if "tokens" not in path])
def test_a_page_loads_no_tokens_payloads_or_snapshots(browser: Client, run: Run, path: str) -> None:
    selected: list[Any] = [sql.split(" FROM ")[0] for sql in _queries(browser, path, run)]
    assert [sql for sql in selected if any(column in sql for column in HEAVY)] == []
