"""Executions and what was selected of them as tables in files, and runs made of such files again."""
