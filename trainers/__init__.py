"""Batches, micro-steps, gradients, weight versions and checkpoints; engines and trainers of the cells."""
