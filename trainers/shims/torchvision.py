"""Stands in for `torchvision`, which SGLang imports for image models. Nothing of it may be called."""

from typing import Any

__version__ = "0.0.0"


class _AnyMember(type):
    """Enumerations such as InterpolationMode are read at import time: every member is its own name."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name[:1].isupper():
        return _AnyMember(name, (), {"__module__": __name__})

    def unavailable(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{__name__}.{name}: images are not supported on CPU cells")

    return unavailable
