"""Frozen dataclasses to JSON and back, so that a stored snapshot is the snapshot that was decided on."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Decoder = Callable[[Any], Any]


def to_json(value: Any) -> Any:
    """Plain lists, dicts and scalars. Tuples become lists; dataclasses become dicts by field name."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(kind: type[T], data: Any) -> T:
    """The inverse of `to_json`. Raises KeyError or TypeError when the data does not fit `kind`."""
    decode: Callable[[Any], T] = _decoder(kind)  # type: ignore[arg-type]  # mypy holds that a class has no hash
    result = decode(data)
    return result


@cache
def _decoder(kind: Any) -> Decoder:
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass_decoder(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _decoder(arguments[0])
        return lambda data: tuple(item(part) for part in data)
    if origin in (types.UnionType, typing.Union):
        inner = [part for part in arguments if part is not type(None)]
        if len(inner) == 1:
            some = _decoder(inner[0])
            return lambda data: None if data is None else some(data)
    return lambda data: data


def _dataclass_decoder(kind: type[Any]) -> Decoder:
    hints = typing.get_type_hints(kind)
    decoders = {field.name: _decoder(hints[field.name]) for field in fields(kind)}
    return lambda data: kind(**{name: decode(data[name]) for name, decode in decoders.items()})
