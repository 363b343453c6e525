"""`manage.py export RUN --out DIR`: a run's executions and what was selected of them, as Parquet or JSON Lines."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.exports.folder import BadExport, write
from agents.exports.tables import TABLES
from agents.management.runs import add_run, named_run
from agents.models import Run
from agents.web.executions import OUTCOMES, Filters


class Command(BaseCommand):
    help = (
        "Write the ended executions of a run as tables (docs/export-format.md). The same command again goes on with "
        "an export that was interrupted."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_run(parser)
        parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="empty, or an export to go on with")
        parser.add_argument("--format", choices=["parquet", "jsonl"], default="parquet")
        parser.add_argument("--outcome", choices=OUTCOMES, default="", help="only executions that ended so")
        parser.add_argument("--kind", choices=["training", "evaluation"], default="", help="only this kind")
        parser.add_argument("--batch", type=int, help="only executions whose group this batch admitted")
        parser.add_argument("--group", type=int, help="only executions of groups with this number")

    def handle(self, *args: Any, **options: Any) -> None:
        run = named_run(options["run"])
        filters = Filters(
            outcome=options["outcome"], kind=options["kind"], batch=options["batch"], group=options["group"]
        )
        try:
            manifest = write(run, options["out"], options["format"], filters, self._progress())
        except (BadExport, OSError) as error:
            raise CommandError(str(error)) from None
        if run.state in Run.LIVE_STATES:
            self.stderr.write(f"run {run.pk} is {run.state}: executions that end from now on are not in this export")
        size = sum(fact["bytes"] for fact in manifest["files"].values())
        counts = ", ".join(f"{manifest['rows'][name]:,} {name}" for name in TABLES)
        self.stdout.write(f"{options['out']}: {counts}; {size / 1e6:,.1f} MB in {len(manifest['files'])} files")

    def _progress(self) -> Any:
        quiet = not sys.stderr.isatty()

        def show(done: int, total: int) -> None:
            if quiet or not total:
                return
            bar = "█" * (30 * done // total)
            print(f"\r{bar:<30} {done:,} of {total:,} executions", end="" if done < total else "\n", file=sys.stderr)

        return show
