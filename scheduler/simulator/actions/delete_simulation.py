"""Delete a saved simulation with its runs and decisions. Live runs have no part in it."""

from django.db import transaction

from scheduler.simulator.studies.models import Simulation


def delete_simulation(simulation: Simulation) -> None:
    """All or nothing. Its command brings it back."""
    with transaction.atomic():
        simulation.delete()
