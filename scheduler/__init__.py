"""Cells, their roles, and the decisions that move them between rollout and training."""
