"""What a chat template can say, found by asking it: for families that no table knows, and to hold the table to account.

A template says a probe when all its words come out, in their order. Its shape is the one that changes least among those
with which it says every probe.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields
from operator import mul
from typing import get_args, get_type_hints

from agents.proxy import shaping
from agents.proxy.probes import PROBES, Probe
from agents.proxy.shaping import Message, Shape, Tool

#: Renders messages and tools, as they are, to text. Raises whatever a template raises.
Render = Callable[[list[Message], list[Tool] | None], str]

#: How much a step of a field changes, where it is not 1. Schemas are rather mended than tools described in a message.
_COSTS = {"offers": 3}


def shape_of(render: Render) -> Shape:
    """The shape that changes least of those in which everything can be said that can be said at all."""
    hints = get_type_hints(Shape)
    choices = [get_args(hints[field.name]) for field in fields(Shape)]
    costs = [_COSTS.get(field.name, 1) for field in fields(Shape)]
    picked = itertools.product(*(range(len(options)) for options in choices))
    ranked = sorted(picked, key=lambda picks: (sum(map(mul, picks, costs)), picks))
    shapes = [Shape(*(options[i] for options, i in zip(choices, picks, strict=True))) for picks in ranked]
    probes = [probe for probe in PROBES if not loss(render, shapes[-1], probe)]
    for shape in shapes:
        wrong = next((probe for probe in probes if loss(render, shape, probe)), None)
        if wrong is None:
            return shape
        # What one shape falls over is asked first of the next: most fall over the same.
        probes.remove(wrong)
        probes.insert(0, wrong)
    raise AssertionError("the last shape says all of them")


def loss(render: Render, shape: Shape, probe: Probe) -> str:
    """What a template loses of a probe in this shape; "" when it says all of it."""
    offered = probe.tools or []
    try:
        text = render(shaping.conversation(probe.messages, shape, offered), shaping.tools(offered, shape) or None)
    except Exception as error:  # a template fails in whatever way it likes
        return f"{type(error).__name__}: {error}"
    at = 0
    for word in probe.words:
        at = text.find(word, at)
        if at < 0:
            return f"{word!r} is lost"
    return next((f"{word!r} is lost" for word in probe.beside if word not in text), "")
