"""One piece of a worker's work, done in the thread of the test."""

from agents.executions.evaluate import evaluate_attempt, take_evaluations
from agents.executions.run import Ending, run_attempt, take_queued
from agents.executions.worker import Worker


def run_next(worker: Worker) -> bool:
    """Run the oldest queued execution to the end of its harness. False when none may start, or it was given up."""
    return any(run_attempt(worker, lease) is not Ending.GIVEN_UP for lease in take_queued(worker, 1))


def evaluate_next(worker: Worker) -> bool:
    """Evaluate the execution that has waited longest. False when none waits, or the disk is full."""
    taken = take_evaluations(worker, 1)
    for lease in taken:
        evaluate_attempt(worker, lease)
    return bool(taken)
