"""The evaluator: the task's verifier in a sandbox of its own, and the rules for its reward files (docs/tasks.md)."""

from agents.harness.evaluator.verify import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
