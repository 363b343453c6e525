"""`manage.py doctor`: checks the machine and says what is missing."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from gyreweb.doctor import Level, examine

SIGNS = {Level.OK: "ok     ", Level.WARNING: "warning", Level.MISSING: "MISSING"}


class Command(BaseCommand):
    help = "Check this machine for everything that Gyre needs. Exit code 1 when something is missing."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        num_missing = 0
        for finding in examine():
            num_missing += finding.level is Level.MISSING
            style = {Level.OK: self.style.SUCCESS, Level.WARNING: self.style.WARNING, Level.MISSING: self.style.ERROR}
            self.stdout.write(f"{style[finding.level](SIGNS[finding.level])} {finding.subject}: {finding.detail}")
            if finding.remedy:
                self.stdout.write(f"        → {finding.remedy}")
        if num_missing:
            sys.exit(1)
