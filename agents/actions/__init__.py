"""One action per file: permission, change, event, in one transaction."""
