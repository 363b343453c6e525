"""Bundled task sets and the scripts that generate them."""
