"""Tasks in the Harbor format (docs/tasks.md): parsed completely, and refused by name where they cannot be honoured."""

from agents.harness.taskformat.directory import ParsedTask, load_task
from agents.harness.taskformat.problems import BadTask

__all__ = ["BadTask", "ParsedTask", "load_task"]
