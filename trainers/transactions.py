"""One transaction, done again when Postgres ended it to break a deadlock: rolled back whole, nothing happens twice."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import psycopg

P = ParamSpec("P")
R = TypeVar("R")
ATTEMPTS = 5


def in_one_transaction(
    function: Callable[Concatenate["psycopg.Connection[tuple[object, ...]]", P], R],
) -> Callable[Concatenate["psycopg.Connection[tuple[object, ...]]", P], R]:
    """For functions that write through the psycopg connection in their first argument. Not to be nested."""

    @wraps(function)
    def wrapped(connection: "psycopg.Connection[tuple[object, ...]]", /, *args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(ATTEMPTS - 1):
            try:
                with connection.transaction():
                    return function(connection, *args, **kwargs)
            except psycopg.errors.DeadlockDetected:
                continue
        with connection.transaction():
            return function(connection, *args, **kwargs)

    return wrapped
