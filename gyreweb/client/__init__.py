"""`gyre`, the command over REST (docs/cli.md). It installs alone and imports nothing of Gyre."""

__version__ = "0.1.0"
