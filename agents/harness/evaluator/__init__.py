"""The evaluator: the task's verifier in a sandbox of its own, and the rules for its reward files (tasks.md §3, §4)."""

from agents.harness.evaluator.verify import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
