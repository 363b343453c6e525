"""Live push: the event log is the truth, the channel layer only rings (docs/architecture.md)."""
