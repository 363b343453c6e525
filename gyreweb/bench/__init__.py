"""Benchmarks behind `manage.py bench`: each measures one promise beside a baseline taken in the same run."""

from importlib import import_module

from gyreweb.bench.figures import Bench, Figure, report

__all__ = ["BENCHES", "Bench", "Figure", "load", "report"]

#: Name → "module:function". Modules are imported only when asked for.
BENCHES: dict[str, str] = {
    "tree": "gyreweb.bench.tree:run",
    "executions": "gyreweb.bench.executions:run",
    "proxy": "gyreweb.bench.proxy:run",
    "simulate": "gyreweb.bench.simulate:run",
    "select": "gyreweb.bench.select:run",
    "sessions": "gyreweb.bench.sessions:run",
    "store": "gyreweb.bench.store:run",
    "tokenize": "gyreweb.bench.tokenize:run",
}


def load(name: str) -> Bench:
    """Raises KeyError for an unknown name."""
    module, function = BENCHES[name].split(":")
    bench: Bench = getattr(import_module(module), function)
    return bench
