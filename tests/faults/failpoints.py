"""Faults around every commit: the first at a place in the code is refused, the second is done and its answer is lost.

A place is the innermost function of Gyre on the stack with its caller. Commits of Django's connection and of psycopg's
both pass here, statements outside of transactions too.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg.pq import TransactionStatus

from gyreweb.env import REPO_ROOT

PACKAGES = tuple(f"{REPO_ROOT / package}/" for package in ("agents", "scheduler", "trainers"))
WRITES = ("UPDATE", "INSERT", "DELETE", "WITH")
#: These say nothing about who commits.
PASSED_OVER = {"persistently", "brief_connection", "<lambda>"}


def place() -> str:
    """`module.function < caller` of the innermost code of Gyre; "" when only a test is on the stack."""
    found: list[str] = []
    frame = sys._getframe(1)
    while frame is not None and len(found) < 2:
        name = frame.f_code.co_name
        if name == "wrapped" and "function" in frame.f_locals:  # a decorator that commits what its function did
            name = frame.f_locals["function"].__qualname__
        if frame.f_code.co_filename.startswith(PACKAGES) and name not in PASSED_OVER:
            found.append(f"{frame.f_globals['__name__']}.{name}")
        frame = frame.f_back
    return " < ".join(found)


@dataclass
class Failpoints:
    """`refused` and `lost` count the faults by place."""

    seen: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    is_on: bool = True

    def commit(self, do: Callable[[], Any], error: type[Exception]) -> Any:
        where = place() if self.is_on else ""
        if not where:
            return do()
        self.seen[where] += 1
        if self.seen[where] == 1:
            self.refused[where] += 1
            raise error(f"failpoint before the commit of {where}")
        result = do()
        if self.seen[where] == 2:
            self.lost[where] += 1
            raise error(f"failpoint after the commit of {where}")
        return result

    @contextmanager
    def on_django(self) -> Iterator[None]:
        """On the connection of this thread."""
        commit = DatabaseWrapper._commit
        with pytest.MonkeyPatch.context() as patch, connection.execute_wrapper(self._statement):
            patch.setattr(DatabaseWrapper, "_commit", lambda one: self.commit(lambda: commit(one), OperationalError))
            yield

    def _statement(self, execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if context["connection"].in_atomic_block or not sql.lstrip().startswith(WRITES):
            return execute(sql, params, many, context)
        return self.commit(lambda: execute(sql, params, many, context), OperationalError)

    def connect(self, url: str) -> psycopg.Connection[Any]:
        """A psycopg connection, as cells have one."""
        points = self

        class Failing(psycopg.Connection[Any]):
            @contextmanager
            def transaction(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
                inside = super().transaction(*args, **kwargs)
                opened = inside.__enter__()
                try:
                    yield opened
                except BaseException:
                    if not inside.__exit__(*sys.exc_info()):
                        raise
                else:
                    try:
                        points.commit(lambda: inside.__exit__(None, None, None), psycopg.OperationalError)
                    except psycopg.OperationalError as error:
                        if self.info.transaction_status != TransactionStatus.IDLE:
                            inside.__exit__(type(error), error, None)
                        raise

            def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
                text = query.as_string(self) if isinstance(query, psycopg.sql.Composable) else str(query)
                is_alone = self.info.transaction_status == TransactionStatus.IDLE
                if not is_alone or not text.lstrip().startswith(WRITES):
                    return super().execute(query, *args, **kwargs)
                return points.commit(
                    lambda: psycopg.Connection.execute(self, query, *args, **kwargs), psycopg.OperationalError
                )

        return Failing.connect(url, autocommit=True)
