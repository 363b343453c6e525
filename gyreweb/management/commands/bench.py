"""`manage.py bench NAME --json`: measure, and print one JSON object as the last line of standard output."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gyreweb.bench import BENCHES, Bench, load, report


class Command(BaseCommand):
    help = "Run one benchmark. Figures come with a baseline measured in the same run."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=sorted(BENCHES))
        parser.add_argument("--json", action="store_true", help="print only the JSON object on standard output")
        parser.add_argument("--executions", type=int, metavar="N", help="only `executions`: how many in a burst")

    def handle(self, *args: Any, **options: Any) -> None:
        figures = self._bench(options["name"], options["executions"])()
        if not options["json"]:
            for name, figure in figures.items():
                against = "" if figure.ratio is None else f"  ({figure.ratio:.3g} × {figure.baseline:.6g})"
                self.stdout.write(f"{name:24} {figure.value:.6g} {figure.unit}{against}")
        self.stdout.write(report(options["name"], figures))

    def _bench(self, name: str, num_executions: int | None) -> Bench:
        if num_executions is None:
            return load(name)
        from gyreweb.bench import executions  # only when it is asked for, as `load` does

        num_groups, rest = divmod(num_executions, executions.EXECUTIONS_PER_GROUP)
        if name != "executions" or rest or num_groups < 1:
            raise CommandError(
                "--executions belongs to `bench executions` and is a multiple of "
                f"{executions.EXECUTIONS_PER_GROUP}, the size of a group"
            )
        return partial(executions.run, num_groups)
