"""Read side of the `agents` app for pages, REST and push: queries that return rows and plain values."""
