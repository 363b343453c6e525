"""Harness programs, installed by their ordinary client (npm, pip) into a cache under GYRE_HOME."""

from agents.harness.install.cache import find, install, place_of
from agents.harness.install.recipe import Installed, InstallError, Recipe

__all__ = ["InstallError", "Installed", "Recipe", "find", "install", "place_of"]
