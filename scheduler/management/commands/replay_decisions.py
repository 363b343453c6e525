"""`manage.py replay_decisions RUN`: prove that the stored snapshots give the stored decisions."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.management.runs import add_run, named_run
from scheduler.replay import replay


class Command(BaseCommand):
    help = "Run the stored snapshots of a run through the decision rules again; fails if any decision differs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        result = replay(named_run(options["run"]).pk)
        for difference in result.differences:
            self.stdout.write(f"evaluation {difference.evaluation_number}: {difference.what}")
        summary = f"{result.num_evaluations} evaluations, {result.num_decisions} decisions"
        if result.num_by_other_rules:
            summary += f" ({result.num_by_other_rules} evaluations by another version of the rules not compared)"
        if result.differences:
            raise CommandError(f"{summary}: {len(result.differences)} differ")
        self.stdout.write(f"{summary}: all decided the same again")
