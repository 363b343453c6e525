"""`make prove`: does the product learn? Seeds 1 to 3 of `quickstart` must, the control with permuted rewards must not.

Each run has its own home below $GYRE_HOME/prove, so an interrupted proof goes on where it stopped.
All four took 17 minutes on two cores.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gyreweb import env

MIN_GAIN = 0.25
MAX_CONTROL_GAIN = 0.10


@dataclass(frozen=True)
class Trial:
    preset: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.preset}-{self.seed}"

    def passed(self, result: dict[str, Any]) -> bool:
        gain = result["eval_last"] - result["eval_first"]
        return gain < MAX_CONTROL_GAIN if self.preset == "quickstart-shuffled" else gain >= MIN_GAIN


TRIALS = (*(Trial("quickstart", seed) for seed in (1, 2, 3)), Trial("quickstart-shuffled", 1))


def run_trial(trial: Trial, root: Path) -> dict[str, Any]:
    """The trial's summary; a finished one is read from disk. Raises RuntimeError when the run did not finish."""
    kept = root / f"{trial.name}.json"
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    home = root / trial.name
    home.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "ONCE": "1",
        "SEED": str(trial.seed),
        "PRESET": trial.preset,
        "GYRE_HOME": str(home),
    }
    done = subprocess.run(
        [sys.executable, "-m", "gyreweb.supervisor", "up"],
        cwd=env.REPO_ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"{trial.name} ended with exit code {done.returncode}; logs are in {home / 'logs'}")
    result = dict(json.loads(lines[-1]))
    kept.write_text(json.dumps(result) + "\n")
    return result


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make prove", description=__doc__)
    parser.add_argument("--only", help="names of trials, comma-separated, e.g. quickstart-1")
    chosen = parser.parse_args(argv).only
    trials = [t for t in TRIALS if not chosen or t.name in chosen.split(",")]
    root = env.home() / "prove"
    root.mkdir(parents=True, exist_ok=True)
    all_passed = True
    print(
        f"{'trial':24} {'first':>6} {'last':>6} {'gain':>7} {'steps':>5} {'wall s':>7} {'switches':>8} {'verdict':>8}"
    )
    for trial in trials:
        result = run_trial(trial, root)
        gain = result["eval_last"] - result["eval_first"]
        passed = trial.passed(result)
        all_passed &= passed
        print(
            f"{trial.name:24} {result['eval_first']:6.3f} {result['eval_last']:6.3f} {gain:+7.3f} "
            f"{result['steps']:5d} {result['wall_s']:7.0f} {result['switches']:8d} {'pass' if passed else 'FAIL':>8}",
            flush=True,
        )
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
