"""Install harnesses ahead of the first run that needs them, or list what is there."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agents.harness.drivers import DRIVERS, HARNESSES
from agents.harness.install import Installed, InstallError, Recipe, find, install

#: Seconds between two lines of progress where the output is no terminal.
_LINE_EVERY_S = 10


class Command(BaseCommand):
    help = "Install harnesses into GYRE_HOME/harnesses by npm or pip. Without a name: list them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("harness", nargs="*", metavar="NAME", help=f"one of {', '.join(HARNESSES)}")
        parser.add_argument("--all", action="store_true", help="every one, at the versions that Gyre was tested with")
        parser.add_argument("--harness-version", default="", help="another exact version, as in 0.15.10")

    def handle(self, *args: Any, **options: Any) -> None:
        names = list(HARNESSES) if options["all"] else options["harness"]
        home = Path(settings.GYRE_HOME)
        if not names:
            self._list(home)
        for name in names:
            if name not in HARNESSES:
                raise CommandError(f"{name!r} is no harness; known: {', '.join(HARNESSES)}")
            recipe = DRIVERS[name].recipe(options["harness_version"] or DRIVERS[name].version)
            if recipe is None:
                self.stdout.write(f"{name} {DRIVERS[name].version}: comes with Gyre")
                continue
            try:
                self._say(install(recipe, home, _Progress(self, recipe)))
            except InstallError as error:
                raise CommandError(str(error)) from error

    def _list(self, home: Path) -> None:
        for name in HARNESSES:
            version = DRIVERS[name].version
            recipe = DRIVERS[name].recipe(version)
            if recipe is None:
                state = "comes with Gyre"
            elif find(recipe, home):
                state = f"installed in {home / 'harnesses' / recipe.key}"
            else:
                state = f"not installed (about {recipe.size_mb} MB): manage.py install_harness {name}"
            self.stdout.write(f"{name:16} {version:10} {state}")

    def _say(self, installed: Installed) -> None:
        packages = ", ".join(sorted(installed.integrity))
        self.stdout.write(f"{installed.harness} {installed.version}: installed in {installed.place}\n  {packages}")


class _Progress:
    """A bar on a terminal, else a line now and then."""

    def __init__(self, command: Command, recipe: Recipe) -> None:
        self._command, self._recipe, self._beats = command, recipe, 0
        self._is_terminal = sys.stdout.isatty()

    def __call__(self, megabytes: int, expected: int) -> None:
        self._beats += 1
        share = min(1.0, megabytes / expected) if expected else 0.0
        line = f"{self._recipe.harness} {self._recipe.version}: {megabytes} of about {expected} MB"
        if self._is_terminal:
            bar = "#" * round(30 * share)
            self._command.stdout.write(f"\r{line} [{bar:30}]", ending="\n" if share >= 1 else "")
        elif self._beats % _LINE_EVERY_S == 1:
            self._command.stdout.write(line)
