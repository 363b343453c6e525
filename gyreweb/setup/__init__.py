"""Bootstrap of a checkout: `.venv`, packages, system packages. Standard library only, for the system's Python."""
