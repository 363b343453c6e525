"""Lists, pages, reports, the API, the admin and exports answer whatever numbers a row holds: NaN, infinities, 1e308,
huge integers in JSON, nothing."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, models
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agents.models import Assessment, Draw, Execution, Figure, Group, Run
from scheduler.models import Evaluation
from tests.support.demo_run import Shape, demo_project, demo_run
from tests.support.processed_run import processed_run
from trainers.models import Batch

pytestmark = pytest.mark.django_db

SMALL = Shape(groups_per_batch=2, executions_per_group=2, bursts=2, cells=2, concurrency=4)
ODD = (float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 1e200, 5e-324, -0.0)
#: As Postgres stores it: 1e400 is a number there, and reads as infinite.
ODD_JSON = ('{"reward": 1e400, "loss": %s}' % ("9" * 400), '{"reward": null, "loss": "x"}', "[1e400]")

FLOATS = [
    (model, field)
    for label in ("agents", "scheduler", "trainers")
    for model in apps.get_app_config(label).get_models()
    for field in model._meta.concrete_fields
    if isinstance(field, Figure)
]


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root"))
    return client


def addresses(run: Run) -> list[str]:
    execution = Execution.objects.filter(run=run).order_by("pk").first()
    group = Group.objects.filter(run=run).order_by("pk").first()
    assert execution is not None
    assert group is not None
    page, api = f"/runs/{run.pk}", f"/api/v1/runs/{run.pk}"
    pages = (
        "/ /chart.json /cells/ /decisions/ /batches/ /config/ /executions/ /groups/ /report/ /quarantine/ /what-if/ "
        f"/groups/{group.kind}/{group.number}/"
    )
    data = (
        "/events /metrics /executions /decisions /batches /groups /report /overrides /calls/quarantined "
        "/calls/false_forks /executions?reward_from=-1e300&reward_below=1e300 /exports/executions.csv "
        "/exports/groups.jsonl /exports/assessments.parquet /exports/calls.jsonl /exports/draws.parquet "
        "/exports/trajectories.jsonl"
    )
    views, facts = "/ /outline/ /verdicts/ /replay/", "/tree /assessments /selection"
    admin = [f"/admin/agents/{name}/" for name in ("execution", "group", "assessment", "draw", "call")]
    rows = [f"/admin/agents/execution/{execution.pk}/change/", f"/admin/agents/group/{group.pk}/change/"]
    return [
        *("/", "/api/v1/runs", api, f"/api/v1/executions/{execution.pk}", f"/api/v1/groups/{group.pk}"),
        *(page + name for name in pages.split()),
        *(api + name for name in data.split()),
        *(f"/executions/{execution.pk}{name}" for name in views.split()),
        *(f"/api/v1/executions/{execution.pk}{name}" for name in facts.split()),
        *(*admin, *rows, "/admin/scheduler/evaluation/", "/admin/trainers/batch/"),
    ]


def no_json(sign: str) -> None:
    raise AssertionError(f"{sign} is no JSON")


def all_answer(browser: Client, run: Run) -> None:
    for path in addresses(run):
        reply = browser.get(path)
        assert reply.status_code == 200, path
        body = b"".join(reply.streaming_content) if reply.streaming else reply.content
        if reply.headers["Content-Type"].partition(";")[0] == "application/json":
            json.loads(body, parse_constant=no_json)
    call_command("report", str(run.pk), stdout=StringIO())


def put(model: Any, field: models.Field[Any, Any], value: float | None) -> None:
    """As another program would: past the models."""
    with connection.cursor() as cursor:
        column = field.column
        cursor.execute(f'UPDATE "{model._meta.db_table}" SET "{column}" = %s WHERE "{column}" IS NOT NULL', [value])


def test_every_column_of_floats_reads_as_a_figure_or_as_unknown() -> None:
    plain = [
        f"{model.__name__}.{field.name}"
        for label in ("agents", "scheduler", "trainers")
        for model in apps.get_app_config(label).get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, models.FloatField) and not isinstance(field, Figure)
    ]
    assert plain == []
    run = demo_run(project=demo_project(), shape=SMALL)
    (_, field) = next(pair for pair in FLOATS if pair[0] is Execution and pair[1].name == "reward")
    for value in ODD:
        put(Execution, field, value)
        read = set(Execution.objects.filter(run=run, reward__isnull=False).values_list("reward", flat=True))
        assert read == ({value} if value in (5e-324, 0.0) else {None})


@pytest.mark.parametrize("made", ["a live run", "a processed run"])
def test_all_pages_answer_for_odd_numbers_in_any_column(browser: Client, made: str) -> None:
    run = demo_run(project=demo_project(), shape=SMALL) if made == "a live run" else processed_run().run
    for value in (float("nan"), 1e308):
        for model, field in FLOATS:
            put(model, field, value)
        all_answer(browser, run)


def test_all_pages_answer_for_mixtures_of_odd_and_sound_numbers(browser: Client) -> None:
    run = processed_run().run
    odd_or_sound = st.sampled_from([*ODD, 0.0, 0.5, 1.0, -3.0])

    @settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        for model, field in FLOATS:
            null = st.none() if field.null and field.name not in ("reward", "training_reward") else st.nothing()
            for key in model._base_manager.order_by("pk").values_list("pk", flat=True)[:6]:
                value = data.draw(odd_or_sound | null)
                with connection.cursor() as cursor:
                    table, column, pk = model._meta.db_table, field.column, model._meta.pk.column
                    cursor.execute(
                        f'UPDATE "{table}" SET "{column}" = %s WHERE "{pk}" = %s AND "{column}" IS NOT NULL',
                        [value, key],
                    )
        all_answer(browser, run)

    check()


def test_all_pages_answer_for_odd_values_in_json(browser: Client) -> None:
    run = demo_run(project=demo_project(), shape=SMALL)
    columns = ((Assessment, "rewards"), (Batch, "metrics"), (Evaluation, "by_kind"), (Execution, "harness"))
    for text in ODD_JSON:
        for model, column in columns:
            with connection.cursor() as cursor:
                cursor.execute(f'UPDATE "{model._meta.db_table}" SET "{column}" = %s::jsonb', [text])
        all_answer(browser, run)


def test_a_group_with_a_vote_that_cannot_be_read_closes_over_the_others() -> None:
    from agents.actions.finish_execution import finish_execution
    from tests.processor.records import DONE, make_run, record_conversation, scored

    group = make_run(min_votes=1).group(2)
    first, second = group.executions.order_by("index")
    for execution in (first, second):
        record_conversation(execution)
    finish_execution(first.pk, 1, scored(1.0), DONE)
    field = Execution._meta.get_field("training_reward")
    put(Execution, field, float("nan"))
    assert finish_execution(second.pk, 1, scored(0.5), DONE)
    group.refresh_from_db()
    assert (group.state, group.num_votes, group.reward_mean) == ("ready", 1, 0.5)
    assert Draw.objects.count() == 0
