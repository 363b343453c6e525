"""One action per file: what the control plane does to the ledger."""
