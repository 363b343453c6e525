"""What each policy is, in one sentence: a ratio means nothing without it."""

from scheduler.core.policies import REGISTRY

_DEFINITIONS = {
    "elastic": "cells leave rollout when those that stay can hold all that is owed and rho_min of a batch is ready, "
    "and return when they cannot; micro-steps are streamed",
    "elastic+": "as elastic, but cells leave for the first ready group; a part of the next burst starts while the last "
    "batch of this one is trained, or its stragglers fill the first batch of the next",
    "colocate": "every cell rolls out; when a full batch is ready all rollouts pause, all cells train, weights are "
    "synchronised, rollouts resume after prefilling again",
    "async-barrier": "a fixed split of the cells (half and half unless training_cells is set), both sides always on; "
    "training starts on a full batch",
    "async-streamed": "a fixed split of the cells (half and half unless training_cells is set), both sides always on; "
    "micro-steps are streamed as groups become ready",
    "async-best": "async-streamed with the fastest of all splits, by the median over the seeds: the hardest baseline",
}


def definition(policy: str) -> str:
    """One sentence without a full stop. Policies that are not listed here say it in their own first line."""
    if policy in _DEFINITIONS:
        return _DEFINITIONS[policy]
    lines = (REGISTRY[policy].__doc__ or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else policy


#: The figures of a table, in the order of its columns.
LEGEND = (
    (
        "hours",
        "median over the seeds, to the last step (minutes if short); ± half of the 95% t interval of the mean",
    ),
    ("ratio", "hours / hours of elastic (medians); ± half of the 95% t interval of the mean ratio, paired by seed"),
    ("cell-h", "hours x cells, idle ones included: what is paid for (GPU-h with --gpus-per-cell)"),
    ("E(d)", "mean staleness of trained executions, by the weight version at their launch"),
    ("rollout, full", "share of cell time in rollout, and how full those cells were"),
    ("training, busy", "share of cell time in training, and share of cell time spent in forward and backward passes"),
    ("moves", "finished role changes per run"),
    ("bound", "h/step with all work of the trained groups spread over all cells at full load: no schedule beats it"),
    ("over", "(h/step - bound) / bound"),
)
