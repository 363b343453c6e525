"""`manage.py replay_traffic FILE…`: what the recording proxy would make of captured traffic."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.proxy.families import BadPolicyFolder
from agents.proxy.profiles import PROFILES
from agents.proxy.rendering import BUNDLED_POLICY, rendering
from agents.proxy.traffic.reading import NotReadable
from agents.proxy.traffic.replay import Totals, replay
from agents.proxy.traffic.table import Progress, explain, table


class Command(BaseCommand):
    help = (
        "Replay captured traffic through harness detection, roles, matching and the prefix-sharing tree, as the "
        "recording proxy would. Needs no database."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="captures, as `capture` writes them")
        parser.add_argument(
            "--profile",
            default="auto",
            choices=["auto", *sorted(PROFILES)],
            help="the harness that sent it (default: auto, recognise it from the traffic)",
        )
        parser.add_argument("--json", action="store_true", help="one JSON line for each request, then one of totals")
        parser.add_argument(
            "--tokenizer",
            type=Path,
            default=BUNDLED_POLICY,
            metavar="PATH",
            help="policy folder whose tokenizer and template to use (default: the bundled policy)",
        )

    def handle(self, *, files: list[Path], profile: str, json: bool, tokenizer: Path, **options: Any) -> None:
        try:
            used = rendering(tokenizer)
        except (BadPolicyFolder, OSError) as error:
            raise CommandError(f"--tokenizer {tokenizer}: {error}") from error
        totals, num_unread = Totals(), 0
        progress = Progress(sys.stderr)
        for path in files:
            try:
                found = replay(path, profile, used, progress)
            except NotReadable as error:
                num_unread += 1
                self.stderr.write(str(error))
                continue
            finally:
                progress.close()
            for note in found.notes:
                self.stderr.write(note)
            for line in explain(path, found, profile, used):
                self.stderr.write(line)
            num_unread += not found.rows
            if found.rows:
                self._print(found, json)
            totals.add(found.totals)
        if json or totals.requests:
            self.stdout.write(_line(totals.public()) if json else table_of_totals(totals))
        if num_unread == len(files):
            raise CommandError("none of the files could be read, or none holds a request as `capture` writes them")
        if num_unread:
            raise CommandError(f"{num_unread} of {len(files)} files could not be read or hold no request")

    def _print(self, found: Any, as_json: bool) -> None:
        if as_json:
            for row in found.rows:
                self.stdout.write(_line(row.public()))
        else:
            self.stdout.write(table(found.rows))


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value)


def table_of_totals(totals: Totals) -> str:
    roles = ", ".join(f"{count} {role}" for role, count in sorted(totals.roles.items()))
    saved = 1 - totals.unique_tokens / totals.total_tokens if totals.total_tokens else 0.0
    return (
        f"{totals.requests} requests ({roles}); {totals.false_forks} false forks; {totals.unique_tokens} unique of "
        f"{totals.total_tokens} tokens ({saved:.1%} shared); {totals.leaves} leaves"
    )
