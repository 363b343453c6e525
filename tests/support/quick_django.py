"""What of Django costs tests the most time, and is not what they prove, made cheap: hashes and empty tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db.backends.postgresql.operations import DatabaseOperations

_sql_flush = DatabaseOperations.sql_flush


def make_quick() -> None:
    PBKDF2PasswordHasher.iterations = 1_000  # a million take a quarter of a second, at every sign-in
    DatabaseOperations.sql_flush = _delete_rows


def _delete_rows(self: DatabaseOperations, style: Any, tables: Sequence[str], **options: bool) -> list[str]:
    """After a test that commits. TRUNCATE makes new files for every table and index: a hundred times as long.

    Constraints are checked at the end of the transaction, so that any order will do.
    """
    if any(options.values()):
        return _sql_flush(self, style, tables, **options)
    return [f"DELETE FROM {self.quote_name(table)}" for table in tables]
