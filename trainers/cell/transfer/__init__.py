"""Weights and gradients between cells over Mooncake."""
