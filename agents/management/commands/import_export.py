"""`manage.py import_export DIR`: make a run of an export again, to look at and to compare."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.actions.import_export import import_export
from agents.actions.launch_run import default_project
from agents.exports.folder import BadExport
from agents.models import Project


class Command(BaseCommand):
    help = "Import an export as a run that is marked imported: trees, draws and report are those of the original."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR", help="what `manage.py export` wrote")
        parser.add_argument("--project", help="slug of the project that gets the run; default: the first one")
        parser.add_argument("--name", default="", help="name of the run; default: that of the original")

    def handle(self, *args: Any, **options: Any) -> None:
        project = default_project()
        if options["project"]:
            project = Project.objects.filter(slug=options["project"]).first()
            if project is None:
                known = ", ".join(Project.objects.values_list("slug", flat=True))
                raise CommandError(f"there is no project {options['project']}; projects: {known}")
        try:
            run = import_export(options["folder"], project=project, name=options["name"], progress=_progress())
        except (BadExport, OSError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"run {run.pk}: {run.name}, imported from {run.imported_from}")


def _progress() -> Any:
    quiet, shown = not sys.stderr.isatty(), -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        share = 30 * done // max(total, 1)
        if quiet or (share == shown and done < total):
            return
        shown = share
        print(f"\r{'█' * share:<30} {done:,} of {total:,} rows", end="" if done < total else "\n", file=sys.stderr)

    return show
