"""Gyre on one machine: starts every process, watches them, shows the run's progress, stops them again."""
