"""`manage.py export_policy RUN`: write a run's policy as a folder that transformers loads."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.management.runs import add_run, named_run
from trainers.policy.export import NothingToExport, export_policy


class Command(BaseCommand):
    help = "Write the policy of a run (newest checkpoint, or --version) as a Hugging Face folder."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_run(parser)
        parser.add_argument("--version", type=int, default=None, dest="weight_version", help="weight version; 0: first")
        parser.add_argument("--out", type=Path, required=True, help="folder to write")

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        # Django's own --version would shadow ours.
        return super().create_parser(prog_name, subcommand, conflict_handler="resolve", **kwargs)

    def handle(self, *, run: int, weight_version: int | None, out: Path, **options: Any) -> None:
        found = named_run(run)
        if out.exists() and not out.is_dir():
            raise CommandError(f"{out} is a file; name a folder")
        try:
            version = export_policy(found, out, weight_version)
        except NothingToExport as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"version {version} of {found} written to {out}")
