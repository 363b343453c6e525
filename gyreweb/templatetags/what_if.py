"""Template filters of the what-if page: hours as people say them, shares with their sign, three digits of a number."""

from __future__ import annotations

from django import template

from gyreweb.templatetags.gyre import NOTHING, duration

register = template.Library()


@register.filter
def hours_text(hours: float | None) -> str:
    """Hours as a duration: 4.02 h, 3 min 12 s."""
    return "–" if hours in NOTHING else duration(max(0.0, float(hours or 0.0)) * 3600.0)


@register.filter
def percent_signed(share: float | None) -> str:
    return "–" if share in NOTHING else f"{100 * float(share or 0.0):+.1f}%".replace("-", "−")


@register.filter
def digits(value: float | None) -> str:
    """Three significant digits, never in scientific notation."""
    if value in NOTHING:
        return "–"
    number = float(value or 0.0)
    places = 0 if abs(number) >= 100 else 1 if abs(number) >= 10 else 2 if abs(number) >= 1 else 3
    return f"{number:,.{places}f}"
