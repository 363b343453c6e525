"""The real proxy, worker and sandboxes, for faults in the middle of an execution."""

from tests.harness.conftest import stage, worker

__all__ = ["stage", "worker"]
