"""Drivers: how each harness is started in a sandbox and how its end is read."""

from agents.harness.drivers.base import Driver
from agents.harness.drivers.mini_swe import MiniSwe
from agents.harness.drivers.reference import Reference
from agents.harness.drivers.scripts import Nop, Oracle

DRIVERS: dict[str, Driver] = {driver.name: driver for driver in (Reference(), MiniSwe(), Oracle(), Nop())}

__all__ = ["DRIVERS", "Driver"]
