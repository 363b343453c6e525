"""Fit what is not published to what is: writes the presets named after the published workloads.

    python -m scheduler.simulator.scenarios.fit_published [NAME …] [--check]

Published: cells, mean execution and query hours, the share of queries of at least 4 h, mean staleness, hours of two
runs, and ranges of the ratios over two baselines. Not published: batch and group size, the concurrency of larger
cells, the length of executions and of training. The free ones are fitted once, by Nelder and Mead's search, with the
seeds below; `--check` only prints how far the presets as they are written lie from what they were fitted to.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from scheduler.simulator.core import Result, simulate
from scheduler.simulator.scenarios import PRESET_DIR, Scenario, load, parse

SEEDS = (1, 2, 3)
#: Published ranges of hours[baseline] / hours[elastic] over all configurations.
RANGES = {"colocate": (1.21, 1.85), "async": (1.38, 1.78)}
BASELINES = ("colocate", "async-barrier", "async-streamed")

FIGURES: Mapping[str, Callable[[Sequence[Result]], float]] = {
    "execution_h": lambda results: fmean(r.execution_h for r in results),
    "query_h": lambda results: fmean(r.query_h for r in results),
    "query_ge_4h": lambda results: fmean(r.query_ge_4h for r in results),
    "E_d": lambda results: fmean(r.mean_staleness for r in results),
    "hours": lambda results: fmean(r.hours for r in results),
}


@dataclass(frozen=True)
class Spec:
    """One preset: what is given, what is free (with its start), what it must meet."""

    description: str
    settings: Mapping[str, Any]
    workload: Mapping[str, Any]
    free: Mapping[str, float] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    targets: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (policy, figure) -> value
    like: str = ""  # take the fitted workload of this preset


COMMON = {"rho_min": 0.5}
#: Costs that every preset shares: switches as published, calls move with their keys and values over RDMA.
COSTS = {"to_training_s": 8.52, "to_rollout_s": 3.46, "move_stall_s": 10.0, "resume_stall_s": 180.0, "commit_s": 180.0}

NL2REPO = {"execution_h": 1.93, "query_h": 2.96, "query_ge_4h": 0.0951, "E_d": 1.5}
NL2REPO_TARGETS = {("elastic", name): value for name, value in NL2REPO.items() if name != "E_d"}

SPECS: Mapping[str, Spec] = {
    "nl2repo-122b-8x4": Spec(
        description="NL2RepoBench with a 122B policy on 32 nodes, eight cells of four.",
        settings={**COMMON, "cells": 8, "concurrency_per_cell": 192},
        workload={**COSTS, "cap_h": 6.0, "harness_timeout_s": 21_600, "train_cell_h": 5.2},
        free={"execution_h": 1.92, "log_sd_between": 0.22, "log_sd_within": 0.27},
        published={**NL2REPO, "nodes": 32},
        targets=NL2REPO_TARGETS,
    ),
    "nl2repo-122b-4x8": Spec(
        description="The same on four cells of eight nodes: half the cells, each twice as strong.",
        settings={**COMMON, "cells": 4, "concurrency_per_cell": 384},
        workload={**COSTS, "train_cell_h": 2.6},
        published={**NL2REPO, "nodes": 32},
        targets={key: value for key, value in NL2REPO_TARGETS.items() if key[1] != "query_ge_4h"},
        like="nl2repo-122b-8x4",
    ),
    "nl2repo-2.4t": Spec(
        description="NL2RepoBench with a 2.4T policy on 192 nodes, four cells of 48.",
        settings={**COMMON, "cells": 4, "concurrency_per_cell": 288},
        workload={**COSTS, "cap_h": 12.0, "harness_timeout_s": 21_600, "log_sd_between": 0.15},
        free={"execution_h": 3.466, "train_cell_h": 1.5, "log_sd_within": 0.192},
        published={"nodes": 192, "hours": 75.42, "async_hours": 134.55},
        targets={("elastic", "hours"): 75.42, ("async-barrier", "hours"): 134.55},
    ),
    "deepswe-122b": Spec(
        description="DeepSWE with a 122B policy on 24 nodes, six cells of four. Durations are assumed: none published.",
        settings={**COMMON, "cells": 6, "concurrency_per_cell": 192},
        workload={
            **COSTS, "execution_h": 1.2, "log_sd_between": 0.3, "log_sd_within": 0.3, "cap_h": 6.0,
            "harness_timeout_s": 14_400, "train_cell_h": 3.0,
        },
        published={"nodes": 24, "concurrency_per_cell": 192},
    ),
    "terminalbench-122b": Spec(
        description="TerminalBench with a 122B policy on 24 nodes, six cells of four. Durations are assumed.",
        settings={**COMMON, "cells": 6, "concurrency_per_cell": 192},
        workload={
            **COSTS, "execution_h": 0.9, "log_sd_between": 0.35, "log_sd_within": 0.25, "cap_h": 6.0,
            "harness_timeout_s": 14_400, "environment_share": 0.45, "train_cell_h": 2.2,
        },
        published={"nodes": 24, "concurrency_per_cell": 192},
    ),
}  # fmt: skip


def scenario(spec: Spec, free: Mapping[str, float]) -> Scenario:
    workload = dict(spec.workload)
    if spec.like:
        other = SPECS[spec.like]
        fitted = load(spec.like).workload
        workload = {**other.workload, **{name: getattr(fitted, name) for name in other.free}, **workload}
    return parse({"settings": spec.settings, "workload": {**workload, **free}}, "fit")


def figures(tried: Scenario, wanted: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    runs = {
        policy: [simulate(tried.settings, tried.workload, policy, seed) for seed in SEEDS]
        for policy in {policy for policy, _ in wanted}
    }
    return {(policy, name): FIGURES[name](runs[policy]) for policy, name in wanted}


def fit(spec: Spec) -> dict[str, float]:
    """The free parameters that bring the targets closest, by least squares of relative errors."""
    from scipy.optimize import minimize

    names = list(spec.free)

    def loss(values: Sequence[float]) -> float:
        if min(values) <= 0.01:
            return 10.0
        got = figures(scenario(spec, dict(zip(names, values, strict=True))), spec.targets)
        return sum((got[key] / wanted - 1.0) ** 2 for key, wanted in spec.targets.items())

    found = minimize(
        loss, list(spec.free.values()), method="Nelder-Mead", options={"maxfev": 80, "xatol": 2e-3, "fatol": 1e-6}
    )
    return {name: round(float(value), 4) for name, value in zip(names, found.x, strict=True)}


def errors(spec: Spec, tried: Scenario) -> dict[str, float]:
    """Relative error of each target, then the ratios over the baselines."""
    wanted = {**spec.targets, ("elastic", "hours"): 0.0, **{(policy, "hours"): 0.0 for policy in BASELINES}}
    got = figures(tried, wanted)
    report = {
        f"error {policy} {name}": round(got[policy, name] / value - 1.0, 4)
        for (policy, name), value in spec.targets.items()
    }
    hours = got["elastic", "hours"]
    return report | {f"ratio {policy}": round(got[policy, "hours"] / hours, 3) for policy in BASELINES}


def problems(report: Mapping[str, float]) -> list[str]:
    """What lies outside of what is published: errors above 5%, ratios outside the ranges."""
    found = [
        f"{name} is {value:+.1%}" for name, value in report.items() if name.startswith("error") and abs(value) > 0.05
    ]
    low, high = RANGES["colocate"]
    if not low <= report["ratio colocate"] <= high:
        found.append(f"ratio colocate {report['ratio colocate']} is outside {low}-{high}")
    low, high = RANGES["async"]
    ratios = [report["ratio async-barrier"], report["ratio async-streamed"]]
    if not any(low <= ratio <= high * 1.005 for ratio in ratios):
        found.append(f"neither async-barrier nor async-streamed of {ratios} is in {low}-{high}")
    return found


def write(name: str, spec: Spec, tried: Scenario, free: Mapping[str, float], report: Mapping[str, float]) -> None:
    keys = [*SPECS[spec.like].workload, *SPECS[spec.like].free] if spec.like else []
    keys += [*spec.workload, *spec.free]
    tables: dict[str, Mapping[str, Any]] = {
        "settings": spec.settings,
        "workload": {key: getattr(tried.workload, key) for key in dict.fromkeys(keys)},
        "published": spec.published,
        "fit": {"free": sorted(SPECS[spec.like].free if spec.like else free), "seeds": list(SEEDS), **report},
    }
    lines = [f'description = "{spec.description}"']
    for table, values in tables.items():
        lines += ["", f"[{table}]", *(f"{_key(key)} = {_value(value)}" for key, value in values.items())]
    (PRESET_DIR / f"{name}.toml").write_text("\n".join(lines) + "\n")


def _key(key: str) -> str:
    return f'"{key}"' if " " in key else key


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SPECS)}; all by default")
    parser.add_argument("--check", action="store_true", help="measure the presets as they are, write nothing")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(SPECS)):
        parser.error(f"{unknown[0]!r} is unknown; known: {', '.join(SPECS)}")
    bad = 0
    for name in options.names or SPECS:
        spec = SPECS[name]
        if options.check:
            tried, free = load(name), {}
        else:
            print(f"{name}: fitting {', '.join(spec.free) or 'nothing'} …", file=sys.stderr, flush=True)
            free = fit(spec) if spec.free else {}
            tried = scenario(spec, free)
        report = errors(spec, tried)
        if not options.check:
            write(name, spec, tried, free, report)
        found = problems(report)
        bad += bool(found)
        print(name, free or "", report, "; ".join(found) or "as published")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
