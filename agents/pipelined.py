"""Fewer round trips in a transaction: statements whose result nobody reads travel with the next that is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connection
from django.db.models import Model
from django.db.models.sql import InsertQuery


@contextmanager
def pipelined() -> Iterator[None]:
    """Inside a transaction. An UPDATE does not tell how many rows it changed, and an error may show at a later
    statement, at the latest at the end of the block: always as Django's."""
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


def insert(rows: Sequence[Model]) -> None:
    """Rows of one table, without reading their numbers back. Does nothing for none."""
    if not rows:
        return
    meta = type(rows[0])._meta
    query = InsertQuery(type(rows[0]))
    query.insert_values([field for field in meta.concrete_fields if field is not meta.auto_field], list(rows))
    with connection.cursor() as cursor:
        for statement, values in query.get_compiler(connection=connection).as_sql():
            cursor.execute(statement, values)
