"""How the control plane launches cells: launcher backends, the cell host that forks them, its socket."""
