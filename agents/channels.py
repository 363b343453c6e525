"""Postgres channels between processes."""

#: Notified with the run's number when a row of its cells has changed. Proxies listen, and poll as well.
CELLS_CHANNEL = "gyre_cells"
