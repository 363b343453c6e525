"""`manage.py verify_run RUN`: check every invariant on the rows of a run; exit 1 with the rows that break one."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection, transaction

from agents import invariants as of_agents
from agents.invariants import Invariant
from agents.management.runs import add_run, named_run
from scheduler import invariants as of_scheduler
from trainers import invariants as of_trainers

ALL: tuple[Invariant, ...] = (*of_agents.INVARIANTS, *of_trainers.INVARIANTS, *of_scheduler.INVARIANTS)

#: Laws about events, bursts, batches and weights, which no export holds, and about groups, of which it may hold a part.
NOT_OF_IMPORTED = frozenset(
    {
        "execution_ends_once", "group_closes_with_its_last_execution", "version_counts_steps",
        "version_has_checkpoint_and_weights", "staleness_bound_holds",
    }
)  # fmt: skip

#: Breaking rows shown per invariant.
SHOWN = 20


@contextmanager
def one_snapshot() -> Iterator[None]:
    """All queries see the database at one moment, also while the run goes on."""
    inside_another = connection.in_atomic_block
    with transaction.atomic():
        if not inside_another:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


class Command(BaseCommand):
    help = "Check the invariants of a run on the database. Exit code 1 and the rows, when one is broken."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        num_broken = 0
        with one_snapshot():
            run = named_run(options["run"])
            laws = [law for law in ALL if not (run.imported_from and law.name in NOT_OF_IMPORTED)]
            if len(laws) < len(ALL):
                self.stdout.write(f"imported from {run.imported_from}: {len(ALL) - len(laws)} laws do not apply")
            for invariant in laws:
                rows = invariant.broken_by(options["run"])
                num_broken += bool(rows)
                self.stdout.write(f"{'BROKEN' if rows else 'ok    '} {invariant.name}: {invariant.law}")
                for row in rows[:SHOWN]:
                    self.stdout.write(f"    {json.dumps(row, default=str)}")
                if len(rows) > SHOWN:
                    self.stdout.write(f"    … and {len(rows) - SHOWN} more rows")
        self.stdout.write(f"{len(laws) - num_broken} of {len(laws)} invariants hold")
        if num_broken:
            sys.exit(1)
