"""Attacks on a running Gyre, each with real processes: what was tried and what holds."""
