"""Which run `make up` watches: an unfinished one, else a new one. A finished run is never reused."""

from collections.abc import Callable

from agents import facade
from agents.actions.change_run_state import resume_run
from agents.actions.launch_run import default_project, launch_run
from agents.models import Run
from gyreweb.supervisor.errors import CannotStart
from scheduler import config


def run_to_watch(preset: str, seed: int | None, exact: bool, notice: Callable[[str], None]) -> Run:
    """With `exact` (ONCE) only an unfinished run of this preset and seed will do, and a paused one goes on.

    Raises CannotStart when the preset or its task set cannot be used.
    """
    unfinished = facade.unfinished_runs()
    if exact:
        wanted = seed if seed is not None else _preset_seed(preset)
        unfinished = unfinished.filter(preset=preset, seed=wanted)
    if (run := unfinished.first()) is None:
        run = _launch(preset, seed)
        notice(f"Launched run {run.pk}: preset {preset}, seed {run.seed}.")
        return run
    notice(f"Run {run.pk} ({run.name}, seed {run.seed}) goes on from step {run.version}.")
    if exact and run.state == Run.State.PAUSED:
        resume_run(run, user=None, reason="make up ONCE=1")
    return run


def _launch(preset: str, seed: int | None) -> Run:
    try:
        return launch_run(
            project=default_project(), user=None, preset=preset, settings={} if seed is None else {"seed": seed}
        )
    except config.BadConfig as error:
        lines = "\n".join(f"  {field}: {why}" for field, why in error.problems.items())
        raise CannotStart(f"preset {preset} was not launched:\n{lines}") from error


def _preset_seed(preset: str) -> int:
    try:
        return config.preset(preset).seed
    except config.BadConfig as error:
        raise CannotStart(str(error)) from error
