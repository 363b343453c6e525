"""Types of command-line options for the scripts of this package: argparse refuses in one line what they cannot take."""

from __future__ import annotations

from argparse import ArgumentTypeError
from math import inf

from scheduler.simulator.scenarios import BadScenario, Scenario, check_policy, load


def preset(text: str) -> tuple[str, Scenario]:
    """The preset of that name, or the scenario in that .toml file, with what it was called."""
    try:
        return text, load(text)
    except BadScenario as error:
        raise ArgumentTypeError(str(error)) from error


def policies(text: str) -> list[str]:
    """Names separated by commas."""
    names = [name.strip() for name in text.split(",")]
    try:
        for name in names:
            check_policy(name)
    except BadScenario as error:
        raise ArgumentTypeError(str(error)) from error
    return names


def count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"{text!r} is not allowed, a whole number of at least 1 is needed")
    return number


def positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < inf:
        raise ArgumentTypeError(f"{text!r} is not allowed, a finite number above 0 is needed")
    return number
