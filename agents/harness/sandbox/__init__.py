"""Sandboxes: a process tree per execution that sees only its own files and the model proxy (docs/tasks.md)."""
