"""Cells as seen from the control plane: launcher backends and engine clients."""
