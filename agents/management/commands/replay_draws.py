"""`manage.py replay_draws EXECUTION`, `--run RUN`: prove that the draws on record come out of the recorded calls."""

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.management.runs import named_run
from agents.models import Execution
from agents.replay import Replayed, replay_draws


class Command(BaseCommand):
    help = (
        "Fold the recorded calls again, select again under the bounds on record, and compare draws, targets and "
        "exclusions. Exit code 1 with the first difference."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("execution", type=int, nargs="?", help="number of the execution")
        parser.add_argument("--run", type=int, help="every admitted execution of this run instead")
        parser.add_argument("--json", action="store_true", help="one JSON object, with the draws of a single execution")

    def handle(self, *args: Any, **options: Any) -> None:
        if (options["execution"] is None) == (options["run"] is None):
            raise CommandError("name an execution, or a run with --run RUN")
        one = options["run"] is None
        self._one(options) if one else self._run(options)

    def _one(self, options: dict[str, Any]) -> None:
        rows = Execution.objects.select_related("run", "group").filter(pk=options["execution"])
        execution = rows.first()
        if execution is None:
            raise CommandError(f"there is no execution {options['execution']}")
        result = replay_draws(execution)
        if result.bounds is None:
            raise CommandError(_no_draws(execution))
        if options["json"]:
            self.stdout.write(json.dumps(as_json(result, with_draws=True)))
        else:
            self._say(result)
        if not result.agree:
            sys.exit(1)

    def _say(self, result: Replayed) -> None:
        assert result.bounds is not None
        for draw in result.recorded["draws"]:
            chosen = next((p for call, _, p in draw["candidates"] if call == draw["chosen_call"]), 0.0)
            self.stdout.write(
                f"draw {draw['number'] + 1}: {draw['role']}, {len(draw['candidates'])} candidates, random "
                f"{draw['random']:.6f}, call {draw['chosen_call']} (probability {chosen:.3f})"
            )
        bounds = f"J_max {result.bounds.j_max}, context_tokens {result.bounds.context_tokens}"
        if result.difference is None:
            self.stdout.write(f"equal: {result.num_draws} draws come out again ({bounds}, seed {result.seed})")
        else:
            self.stdout.write(f"DIFFERS at {result.difference} ({bounds}, seed {result.seed})")

    def _run(self, options: dict[str, Any]) -> None:
        rows = Execution.objects.filter(run=named_run(options["run"]), draws__isnull=False).distinct().order_by("pk")
        total, num_draws, differing = rows.count(), 0, []
        progress = sys.stderr.isatty() and not options["json"]
        for number, execution in enumerate(rows.select_related("run", "group").iterator(chunk_size=100), start=1):
            result = replay_draws(execution)
            num_draws += result.num_draws
            if not result.agree:
                differing.append(result)
                if not options["json"]:
                    self.stdout.write(f"execution {execution.pk} DIFFERS at {result.difference}")
            if progress:
                print(f"\r{number} of {total} executions", end="" if number < total else "\n", file=sys.stderr)
        if options["json"]:
            found = {"run": options["run"], "num_executions": total, "num_draws": num_draws, "equal": not differing}
            self.stdout.write(json.dumps(found | {"differing": [as_json(result) for result in differing]}))
        else:
            self.stdout.write(f"{total} executions, {num_draws} draws: {len(differing)} executions differ")
        if differing:
            sys.exit(1)


def as_json(result: Replayed, with_draws: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {
        "execution": result.execution,
        "attempt": result.attempt,
        "equal": result.agree,
        "num_draws": result.num_draws,
        "seed": result.seed,
        "bounds": asdict(result.bounds) if result.bounds else None,
        "first_difference": asdict(result.difference) if result.difference else None,
    }
    return found | ({"draws": result.recorded["draws"]} if with_draws else {})


def _no_draws(execution: Execution) -> str:
    """Why there is nothing to draw again."""
    if execution.group.kind == "evaluation":
        return f"execution {execution.pk} has no draws: it was for an evaluation, and those are never trained"
    outcome = f" ({execution.outcome})" if execution.outcome else ""
    return (
        f"execution {execution.pk} has no draws: it is {execution.state}{outcome}, and selection draws when its group "
        "is admitted to a batch"
    )
