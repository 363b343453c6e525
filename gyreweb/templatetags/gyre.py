"""Template filters: numbers, durations and hostile text, written so that they can be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from agents.core.plain_text import CONTROL

register = template.Library()

#: What a template has for a value that is not there.
NOTHING: tuple[Any, ...] = (None, "")

#: Escaping writes a backtick as it is.
_TICKED = re.compile(r"`([^`]+)`")


#: Addresses of the API, and the command that shows the same.
_COMMANDS = {
    re.compile(r"/api/v1/runs/(\d+)"): r"gyre show \1",
    re.compile(r"/api/v1/executions/(\d+)"): r"gyre tree \1",
}


def of_number(show: Callable[..., str]) -> Callable[..., str]:
    """A filter of numbers that shows what is none, or is beyond all formats, as the beginning of its text."""

    @wraps(show)
    def shown(value: Any, *arguments: Any) -> str:
        try:
            return show(value, *arguments)
        except (TypeError, ValueError, OverflowError):
            return shortened(value)

    return shown


def shortened(value: Any) -> str:
    """The beginning of a value's text."""
    try:
        return f"{value!s:.24}"
    except ValueError:  # an integer of thousands of digits
        return "–"


@register.filter
def as_gyre(api_path: str) -> str:
    """The command (docs/cli.md) that shows what the address of the API does; empty where there is none."""
    return next((found.expand(to) for path, to in _COMMANDS.items() if (found := path.fullmatch(api_path))), "")


@register.filter
def visible(text: Any) -> SafeString:
    """Escaped text in which control and reordering characters are shown by name instead of obeyed."""
    return mark_safe(CONTROL.sub(_shown, escape(str(text))))


def _shown(found: re.Match[str]) -> str:
    code = ord(found.group())
    sign = f"\\x{code:02x}" if code < 0x100 else f"U+{code:04X}"
    return f'<span class="ctl" title="control character U+{code:04X}">{sign}</span>'


@register.filter
def token_text(text: str) -> SafeString:
    """A token's text: as `visible`, with a sign before each line break."""
    return mark_safe(visible(text).replace("\n", '<i class="nl">↵</i>\n'))


@register.filter
def ticks(text: str) -> SafeString:
    """Escaped text in which what stands in backticks is code."""
    return mark_safe(_TICKED.sub(r'<code class="mono">\1</code>', escape(text)))


@register.filter
@of_number
def short(value: Any) -> str:
    """702k, 19.4M: at most three significant digits."""
    if value in NOTHING:
        return "–"
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= limit:
            scaled = value / divisor
            return f"{scaled:.0f}{unit}" if scaled >= 100 else f"{scaled:.1f}".removesuffix(".0") + unit
    return thousands(value)


@register.filter
@of_number
def thousands(value: float | None) -> str:
    return "–" if value in NOTHING else f"{value:,.0f}"


@register.filter
@of_number
def fixed(value: float | None, places: int = 3) -> str:
    """A number with `places` digits and a real minus sign; nothing known is a dash."""
    return "–" if value in NOTHING else f"{value:z.{places}f}".replace("-", "−")


@register.filter
@of_number
def signed(value: float | None, places: int = 3) -> str:
    return "–" if value in NOTHING else f"{value:+z.{places}f}".replace("-", "−")


@register.filter
@of_number
def percent(share: Any, places: int = 1) -> str:
    return "–" if share in NOTHING else f"{100 * share:.{places}f}%"


@register.filter
@of_number
def duration(value: Any) -> str:
    """4.02 h, 3 min 12 s, 12.4 s, 180 ms."""
    if value in NOTHING:
        return "–"
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds >= 5400:
        return f"{seconds / 3600:.2f} h"
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


@register.filter
def ago(at: datetime | None) -> str:
    """How long since, coarsely."""
    if at is None:
        return "never"
    seconds = (timezone.now() - at).total_seconds()
    if seconds < 10:
        return "just now"
    for limit, divisor, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} d ago"


@register.filter
def since(end: datetime | None, start: datetime | None) -> timedelta | None:
    """`end` (or now) minus `start`."""
    return None if start is None else (end or timezone.now()) - start


@register.filter
def times(value: float, factor: float) -> float:
    """For coordinates of drawings."""
    return round(float(value) * float(factor), 2)


@register.filter
def plus(value: float, more: float) -> float:
    return round(float(value) + float(more), 2)


@register.filter
def item(mapping: dict[Any, Any], key: Any) -> Any:
    return mapping.get(key)


@register.filter
def dash(value: Any) -> Any:
    """A dash for nothing; 0 stays 0."""
    return "–" if value in NOTHING else value


@register.simple_tag
def counted(execution: Any, figure: Any) -> SafeString:
    """A figure of the recorded tree, which is counted when the execution ends by itself; a dash before that."""
    if execution.state == "finished":
        return format_html("{}", figure)
    why = "not counted: it was cancelled" if execution.state == "cancelled" else "counted when it ends"
    return format_html('<span title="{}">–</span>', why)


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """The current query string with `changes`; an empty value removes its parameter."""
    values = context["request"].GET.copy()
    for name, value in changes.items():
        if value in (None, ""):
            values.pop(name, None)
        else:
            values[name] = str(value)
    return f"?{values.urlencode()}" if values else "?"


_STATE_TONES = {
    "running": "ok", "finished": "ok", "starting": "", "queued": "", "paused": "warn", "stopping": "warn",
    "stopped": "", "failed": "bad", "complete": "ok", "partial": "partial", "unresolved": "warn",
}  # fmt: skip


@register.filter
def tone(state: str) -> str:
    """CSS tone of a run's or execution's state or outcome."""
    return _STATE_TONES.get(state, "")
