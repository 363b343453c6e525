"""One change of saved simulations and what-ifs per file: row, event and owner in one transaction."""
