"""Faults of a running Gyre, each with real processes: what breaks and what survives it."""
