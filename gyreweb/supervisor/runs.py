"""Which run `make up` shows, and whether it launches one: at the very first start, and when it is asked to.

A finished run is never reused.
"""

from collections.abc import Callable

from agents import facade
from agents.actions.change_run_state import resume_run
from agents.actions.launch_run import default_project, launch_run
from agents.models import Run
from gyreweb.supervisor.errors import CannotStart
from scheduler import config


def run_to_show(preset: str, seed: int | None, asked: bool, notice: Callable[[str], None]) -> Run | None:
    """An unfinished run goes on. Else one is launched: at the very first start, or when somebody `asked` for this one.

    None: there is nothing to do.

    Raises CannotStart when the preset or its task set cannot be used.
    """
    if (run := facade.unfinished_runs().first()) is not None:
        return _goes_on(run, notice)
    if not asked and Run.objects.exists():
        notice(
            "No run is under way. Launch one on the dashboard, or with `make up PRESET=quickstart`, where it starts "
            "training at once."
        )
        return None
    return _launch(preset, seed, notice)


def run_to_end(preset: str, seed: int | None, notice: Callable[[str], None]) -> Run:
    """For ONCE: an unfinished run of exactly this preset and seed, which goes on if it is paused; else a new one.

    Raises CannotStart when the preset or its task set cannot be used.
    """
    wanted = seed if seed is not None else _preset_seed(preset)
    run = facade.unfinished_runs().filter(preset=preset, seed=wanted).first()
    if run is None:
        return _launch(preset, seed, notice)
    if run.state == Run.State.PAUSED:
        resume_run(run, user=None, reason="make up ONCE=1")
    return _goes_on(run, notice)


def _goes_on(run: Run, notice: Callable[[str], None]) -> Run:
    notice(f"Run {run.pk} ({run.name}, seed {run.seed}) goes on from step {run.version}.")
    return run


def _launch(preset: str, seed: int | None, notice: Callable[[str], None]) -> Run:
    try:
        run = launch_run(
            project=default_project(), user=None, preset=preset, settings={} if seed is None else {"seed": seed}
        )
    except config.BadConfig as error:
        lines = "\n".join(f"  {field}: {why}" for field, why in error.problems.items())
        raise CannotStart(f"preset {preset} was not launched:\n{lines}") from error
    notice(f"Launched run {run.pk}: preset {preset}, seed {run.seed}.")
    return run


def _preset_seed(preset: str) -> int:
    try:
        return config.preset(preset).seed
    except config.BadConfig as error:
        raise CannotStart(str(error)) from error
