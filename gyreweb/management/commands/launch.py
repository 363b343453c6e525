"""`manage.py launch --preset quickstart --set steps=4`: queue a run from the shell."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.actions.launch_run import default_project, launch_run
from agents.config import BadConfig
from scheduler.config import preset_names


def parse_assignment(text: str) -> tuple[str, Any]:
    """`name=value` with the value read as JSON, or as plain text when it is not JSON."""
    name, equals, raw = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--set takes name=value, not {text!r}")
    try:
        return name, json.loads(raw)
    except json.JSONDecodeError:
        return name, raw


class Command(BaseCommand):
    help = "Launch a run. The scheduler of a running Gyre (`make up`) starts it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--preset", default="quickstart", help=f"one of: {', '.join(preset_names())}")
        parser.add_argument("--seed", help="what every random choice derives from")
        parser.add_argument("--name", default="")
        parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change one setting")

    def handle(self, *args: Any, **options: Any) -> None:
        settings = dict(parse_assignment(item) for item in options["set"])
        if options["seed"] is not None:
            settings["seed"] = options["seed"]
        try:
            run = launch_run(
                project=default_project(), user=None, preset=options["preset"], settings=settings, name=options["name"]
            )
        except BadConfig as error:
            lines = "\n".join(f"  {field}: {why}" for field, why in error.problems.items())
            raise CommandError(f"the run was not launched:\n{lines}") from error
        self.stdout.write(str(run.pk))
