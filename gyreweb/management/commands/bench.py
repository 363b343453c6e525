"""`manage.py bench NAME --json`: measure, and print one JSON object as the last line of standard output."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from gyreweb.bench import BENCHES, load, report


class Command(BaseCommand):
    help = "Run one benchmark. Figures come with a baseline measured in the same run."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=sorted(BENCHES))
        parser.add_argument("--json", action="store_true", help="print only the JSON object on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        figures = load(options["name"])()
        if not options["json"]:
            for name, figure in figures.items():
                against = "" if figure.ratio is None else f"  ({figure.ratio:.3g} × {figure.baseline:.6g})"
                self.stdout.write(f"{name:24} {figure.value:.6g} {figure.unit}{against}")
        self.stdout.write(report(options["name"], figures))
