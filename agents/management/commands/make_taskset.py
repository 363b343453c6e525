"""`manage.py make_taskset`: write the quickstart task set again (same seed, same files)."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.tasksets import bundled, quickstart


class Command(BaseCommand):
    help = "Generate the quickstart task set in the Harbor task format."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--out", type=Path, help="new folder to write (default: the bundled set, where it is missing)"
        )
        parser.add_argument("--seed", type=int, default=quickstart.SEED, help="of a set written with --out")

    def handle(self, *, out: Path | None, seed: int, **options: Any) -> None:
        if out is None:
            self.stdout.write(f"the bundled tasks are in {bundled.provide_quickstart()}")
            return
        if out.exists():
            raise CommandError(f"{out} exists already; name a new folder")
        self.stdout.write(f"{quickstart.write_quickstart(out, seed)} tasks written to {out}")
