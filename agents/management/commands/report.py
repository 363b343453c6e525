"""`manage.py report RUN`: tokens recorded, unique, selectable and selected, and what sharing and J_max saved."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from agents.management.runs import add_run, named_run
from agents.report import lines, report


class Command(BaseCommand):
    help = "What a run recorded and trained, and what that saved against named baselines."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_run(parser)
        parser.add_argument("--json", action="store_true", help="one JSON object, as REST gives it")

    def handle(self, *args: Any, **options: Any) -> None:
        found = report(named_run(options["run"]))
        self.stdout.write(json.dumps(found.to_json()) if options["json"] else "\n".join(lines(found)))
