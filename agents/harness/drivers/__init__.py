"""Drivers: how each harness is installed, started in a sandbox, and how its end is read.

A module of this package that defines `DRIVERS` adds what it lists: a new harness is one file here, and one file of
roles in `agents/proxy/profiles` (docs/howto/add-a-harness.md).
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from agents.harness.drivers.base import Driver

DRIVERS: dict[str, Driver] = {
    driver.name: driver
    for found in pkgutil.iter_modules(__path__)
    if found.name != "warm_reference"  # for the sandbox server alone: it makes clients when it is imported
    for driver in getattr(import_module(f"{__name__}.{found.name}"), "DRIVERS", ())
}

#: Harnesses that a run can ask for, Gyre's own first.
HARNESSES: tuple[str, ...] = tuple(
    sorted((d.name for d in DRIVERS.values() if d.calls_model), key=lambda name: (name != "reference", name))
)

__all__ = ["DRIVERS", "HARNESSES", "Driver"]
