"""The run that a management command is about."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from agents.models import Run


def add_run(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=int, help="number of the run")


def named_run(number: int) -> Run:
    """Raises CommandError when there is none of that number."""
    try:
        return Run.objects.get(pk=number)
    except Run.DoesNotExist:
        raise CommandError(f"there is no run {number}") from None
