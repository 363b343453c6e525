"""Captured traffic of harnesses: reading it, replaying it through the record, and capturing more."""
