"""Harness drivers, their profiles, the sandbox and the task format."""
