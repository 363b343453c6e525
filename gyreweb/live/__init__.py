"""Live push: the event log is the truth, the channel layer only rings (dashboard.md, Live data)."""
