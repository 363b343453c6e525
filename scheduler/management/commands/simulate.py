"""`manage.py simulate --preset NAME`: hours of a cluster under one or more policies, before it is rented."""

import shlex
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.simulator import scenarios
from scheduler.simulator.scenarios import BadScenario, Scenario
from scheduler.simulator.scenarios.files import to_toml
from scheduler.simulator.studies import arguments, sensitivity, table
from scheduler.simulator.studies.many import run_many
from scheduler.simulator.studies.output import write_plots, write_results
from scheduler.simulator.studies.points import Points
from scheduler.simulator.studies.progress import Bar
from scheduler.simulator.studies.report import JsonReport, Report, TextReport
from scheduler.simulator.studies.study import Study
from scheduler.simulator.studies.summary import Summary

EPILOG = """\
A KEY is a run setting or a parameter of the workload; a wrong one lists them all. docs/simulator.md tells what each
means, and how to describe a cluster of one's own in a file.

  manage.py simulate --preset baseline-set --policy elastic,colocate --seeds 3
  manage.py simulate --preset baseline-set --sweep rho_min=0.1,0.25,0.5 --sweep cells=4,6,8 --out plots
  manage.py simulate --preset my-cluster.toml --set cell_failures_per_h=0.02 --seeds 21-40 --jobs 2
  manage.py simulate --preset nl2repo-122b-8x4 --policy elastic,colocate --sensitivity --out plots
  manage.py simulate --fit-from 7 --set cells=4
"""


class Command(BaseCommand):
    help = "Simulate runs with the code that decides for live cells. Needs no database, unless runs are read or saved."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, allow_abbrev=False, **kwargs)
        parser.epilog, parser.formatter_class = EPILOG, RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = ", ".join(scenarios.preset_names())
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--preset", metavar="NAME|FILE.toml", help=f"one of {names}; or a file of one's own")
        source.add_argument("--fit-from", type=int, metavar="RUN", help="fit to what a live run has recorded")
        parser.add_argument(
            "--policy", default=",".join(scenarios.POLICIES), metavar="A,B", help="default: all, %(default)s"
        )
        parser.add_argument("--seeds", default="3", help="n for 1 to n, a-b, or a list (default %(default)s)")
        parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change one setting")
        parser.add_argument(
            "--sweep", action="append", default=[], metavar="KEY=A,B,C", help="once per key: the cross product is run"
        )
        parser.add_argument(
            "--sensitivity", action="store_true", help="move rho_min, S, N, tail, K, switch seconds, J_max, each alone"
        )
        parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
        parser.add_argument("--gpus-per-cell", type=int, metavar="N", help="tell GPU-hours, not cell-hours")
        parser.add_argument("--out", type=Path, metavar="DIR", help="write plots (PNG and SVG) and results.jsonl here")
        parser.add_argument(
            "--write",
            type=Path,
            metavar="FILE.toml",
            help="write what was set or fitted; then run it",
        )
        parser.add_argument("--save", action="store_true", help="keep it in the database; the dashboard shows it")
        parser.add_argument("--json", action="store_true", help="one JSON object per policy and seed, then the sums")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["gpus_per_cell"] is not None and options["gpus_per_cell"] < 1:
                raise BadScenario(f"--gpus-per-cell is {options['gpus_per_cell']}, at least 1 is needed")
            sweep = arguments.sweeps(options["sweep"])
            scenario, changes = self._scenario(options, sweep)
            policies = [name.strip() for name in options["policy"].split(",") if name.strip()]
            seeds = arguments.seeds(options["seeds"])
            if options["sensitivity"] and sweep:
                raise BadScenario("--sensitivity moves its own settings; leave out --sweep")
            if options["sensitivity"]:
                study, left_out = Study.one_at_a_time(scenario, policies, seeds, sensitivity.values(scenario))
                for why in left_out:
                    print(f"left out, {why}", file=sys.stderr)
            else:
                study = Study.of(scenario, policies, seeds, sweep, keep_decisions=options["save"])
        except BadScenario as error:
            raise CommandError(str(error)) from error
        if options["jobs"] < 1:
            raise CommandError("--jobs needs at least 1")
        if options["write"] is not None:
            self._write_scenario(scenario, options["write"])
        show = self._report(study, changes, options)
        points, summaries = Points(study), []

        def complete(summary: Summary) -> None:
            show.point(summary)
            if options["save"]:
                self._save(summary, changes, options)
            summaries.append(summary)

        interrupted = self._run(study, options["jobs"], points, complete)
        show.close()
        if options["out"] is not None and summaries:
            self._write(summaries, options)
        if interrupted:
            print(f"interrupted after {points.num_finished} of {study.num_jobs} runs", file=sys.stderr)
            sys.exit(130)
        if points.num_failed:
            sys.exit(1)

    def _scenario(self, options: dict[str, Any], sweep: dict[str, list[Any]]) -> tuple[Scenario, dict[str, Any]]:
        """The scenario around which is swept, and what was set and is not swept."""
        changes = arguments.settings(options["set"])
        scenario = base_of(lambda wanted: self._changed(options, wanted), changes, sweep)
        return scenario, {name: value for name, value in changes.items() if name not in sweep}

    def _changed(self, options: dict[str, Any], changes: dict[str, Any]) -> Scenario:
        if options["fit_from"] is None:
            return scenarios.load(options["preset"]).changed(changes)
        from scheduler.simulator.studies.fitted import fitted  # reads the database

        scenario = fitted(options["fit_from"], changes)
        for line in table.fit_lines(scenario):
            print(line, file=sys.stderr)
        return scenario

    def _write_scenario(self, scenario: Scenario, path: Path) -> None:
        if path.suffix != ".toml":
            raise CommandError(f"--write {path}: the name must end in .toml, so that --preset can read it")
        try:
            path.write_text(to_toml(scenario))
        except OSError as error:
            raise CommandError(f"--write {path}: {error.strerror or error}") from error
        print(f"wrote {path}: simulate it again with --preset {path}", file=sys.stderr)

    def _report(self, study: Study, changes: dict[str, Any], options: dict[str, Any]) -> Report:
        gpus = options["gpus_per_cell"] or 0
        if options["json"]:
            return JsonReport(study, name_of(options), lambda line: print(line, flush=True), gpus)
        return TextReport(study, changes, gpus)

    def _save(self, summary: Summary, changes: dict[str, Any], options: dict[str, Any]) -> None:
        """One saved simulation per point. Its decisions are in the database then, and no longer needed here."""
        from scheduler.simulator.studies.saving import save  # the only way to the database

        try:
            saved = save(summary, changes, fitted_from=options["fit_from"], command=command_of(options))
        except ValueError as error:
            print(f"not saved: {error}", file=sys.stderr)
            return
        print(f"saved: /simulations/{saved.pk}/ of the dashboard", file=sys.stderr)
        for result in (result for policy in summary.policies for result in policy.results):
            result.decisions = []

    def _write(self, summaries: list[Summary], options: dict[str, Any]) -> None:
        try:
            paths = write_results(summaries, name_of(options), options["out"], options["gpus_per_cell"] or 0)
            paths += write_plots(summaries, options["out"])
        except OSError as error:
            raise CommandError(f"--out {options['out']}: {error.strerror or error}") from error
        names = ", ".join(path.name for path in paths if path.suffix != ".svg")
        print(f"wrote to {options['out']}: {names} (plots also as SVG)", file=sys.stderr)

    def _run(self, study: Study, jobs: int, points: Points, complete: Callable[[Summary], None]) -> bool:
        """Points are told as they become complete. True: an interrupt came, and all that was begun is told."""
        try:
            with Bar(study.num_jobs) as bar:
                for item in run_many(study, num_processes=jobs, on_progress=bar.show):
                    summary = points.add(item)
                    if summary is not None:
                        with bar.above():
                            complete(summary)
        except KeyboardInterrupt:
            for summary in points.begun():
                complete(summary)
            return True
        return False


def base_of(
    make: Callable[[dict[str, Any]], Scenario], changes: dict[str, Any], sweep: dict[str, list[Any]]
) -> Scenario:
    """The scenario with what was set. One that cannot be, but for settings that are swept, has their first values.

    Raises BadScenario.
    """
    try:
        return make(changes)
    except BadScenario:
        if not sweep:
            raise
        return make({**changes, **{name: values[0] for name, values in sweep.items()}})


def name_of(options: dict[str, Any]) -> str:
    """What the study is about: the preset, or the run that was fitted."""
    return str(options["preset"]) if options["fit_from"] is None else f"run-{options['fit_from']}"


def command_of(options: dict[str, Any]) -> str:
    """The shell command that runs the same study again."""
    source = ["--preset", options["preset"]] if options["fit_from"] is None else ["--fit-from", options["fit_from"]]
    words = [".venv/bin/python", "manage.py", "simulate", *source]
    words += ["--policy", options["policy"], "--seeds", options["seeds"]]
    words += ["--sensitivity"] if options["sensitivity"] else []
    for name in ("set", "sweep"):
        for text in options[name]:
            words += [f"--{name}", text]
    return shlex.join(map(str, words))
