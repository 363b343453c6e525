"""`manage.py make_policy`: rebuild the tiny policy of the quickstart preset from nothing."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from trainers.policy.folder import BUNDLED, write_folder

BAR_WIDTH = 30


class Command(BaseCommand):
    help = "Warm-start the tiny quickstart policy on generated demonstrations and write a Hugging Face folder."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, default=BUNDLED, help="folder to write (default: the bundled one)")
        parser.add_argument("--seed", type=int, default=None)
        parser.add_argument("--steps", type=int, default=None)

    def handle(self, *, out: Path, seed: int | None, steps: int | None, **options: Any) -> None:
        import torch

        from agents.proxy.rendering import Rendering
        from trainers.policy.warmstart import WarmStart, warm_start

        torch.set_num_threads(1)
        given = {name: value for name, value in (("seed", seed), ("steps", steps)) if value is not None}
        settings, started = WarmStart(**given), time.monotonic()
        bar = _Bar(settings.steps)
        try:
            model = warm_start(Rendering(BUNDLED), settings, bar)
        except KeyboardInterrupt as interrupt:
            raise CommandError("interrupted; nothing was written", returncode=130) from interrupt
        write_folder(model, out)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        self.stdout.write(f"{parameters} parameters, {time.monotonic() - started:.0f} s, written to {out}")


class _Bar:
    """Progress on standard error: a bar on a terminal, else a line every tenth."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._terminal = sys.stderr.isatty()

    def __call__(self, done: int, loss: float) -> None:
        figures = f"step {done}/{self.steps} loss {loss:.3f}"
        if self._terminal:
            filled = BAR_WIDTH * done // self.steps
            end = "\n" if done == self.steps else ""
            print(f"\r[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {figures}", end=end, file=sys.stderr, flush=True)
        elif done % max(1, self.steps // 10) == 0:
            print(figures, file=sys.stderr, flush=True)
