"""`manage.py make_taskset`: write the quickstart task set again (same seed, same files)."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.tasksets import quickstart


class Command(BaseCommand):
    help = "Generate the quickstart task set in the Harbor task format."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, default=quickstart.FOLDER, help="folder to write (default: bundled)")
        parser.add_argument("--seed", type=int, default=quickstart.SEED)

    def handle(self, *, out: Path, seed: int, **options: Any) -> None:
        foreign = out.is_dir() and any(child.name not in ("train", "heldout") for child in out.iterdir())
        if foreign:
            raise CommandError(f"{out} holds other files than a task set; name an empty or new folder")
        count = quickstart.write_quickstart(out, seed)
        self.stdout.write(f"{count} tasks written to {out}")
