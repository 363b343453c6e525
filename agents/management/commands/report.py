"""`manage.py report RUN`: tokens recorded, unique, selectable and selected, and what sharing and J_max saved."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.models import Run
from agents.report import lines, report


class Command(BaseCommand):
    help = "What a run recorded and trained, and what that saved against named baselines."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int, help="number of the run")
        parser.add_argument("--json", action="store_true", help="one JSON object, as REST gives it")

    def handle(self, *args: Any, **options: Any) -> None:
        run = Run.objects.filter(pk=options["run"]).first()
        if run is None:
            raise CommandError(f"there is no run {options['run']}")
        found = report(run)
        self.stdout.write(json.dumps(found.to_json()) if options["json"] else "\n".join(lines(found)))
