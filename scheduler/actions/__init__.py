"""One change per file: row, event and owner in one transaction."""
