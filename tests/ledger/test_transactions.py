"""A transaction that Postgres ends to break a deadlock is done again, whole."""

import threading
from typing import Any

import psycopg
import pytest

from agents.models import Project
from trainers.transactions import in_one_transaction


@pytest.fixture
def projects(database_url: str) -> tuple[int, int]:
    first, second = (Project.objects.create(slug=slug, name="") for slug in ("first", "second"))
    return first.pk, second.pk


def test_two_transactions_that_lock_each_other_out_both_happen_once(
    database_url: str, projects: tuple[int, int]
) -> None:
    both_hold_one = threading.Barrier(2)
    tries = []

    @in_one_transaction
    def append(connection: "psycopg.Connection[Any]", order: tuple[int, int], mark: str) -> None:
        tries.append(mark)
        for position, project in enumerate(order):
            connection.execute("UPDATE agents_project SET name = name || %s WHERE id = %s", (mark, project))
            if position == 0 and tries.count(mark) == 1:
                both_hold_one.wait(timeout=30)

    def run(order: tuple[int, int], mark: str) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            append(connection, order, mark)

    other = threading.Thread(target=run, args=(projects[::-1], "b"))
    other.start()
    run(projects, "a")
    other.join(timeout=60)
    names = {"".join(sorted(name)) for name in Project.objects.values_list("name", flat=True)}
    assert names == {"ab"}
    assert len(tries) > 2  # which one gives way, and how often, is the database's choice


def test_any_other_error_is_not_tried_again(database_url: str, projects: tuple[int, int]) -> None:
    tries = []

    @in_one_transaction
    def fail(connection: "psycopg.Connection[Any]") -> None:
        tries.append(1)
        connection.execute("UPDATE agents_project SET name = 'lost' WHERE id = %s", (projects[0],))
        raise LookupError("no")

    with psycopg.connect(database_url, autocommit=True) as connection, pytest.raises(LookupError):
        fail(connection)
    assert len(tries) == 1
    assert Project.objects.get(pk=projects[0]).name == ""
