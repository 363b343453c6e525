"""Who may open a socket: pages of this very site, port included. Cookies know no ports, so origins must."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host

Application = Callable[..., Awaitable[Any]]


class SameOrigin:
    """Middleware: the handshake's Origin is its Host, or one of GYRE_TRUSTED_ORIGINS; the Host is an allowed one."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        headers = dict(scope["headers"])
        origin, host = (headers.get(name, b"").decode("latin-1").lower() for name in (b"origin", b"host"))
        application = self.application if is_allowed(origin, host) else WebsocketDenier()
        return await application(scope, receive, send)


def is_allowed(origin: str, host: str) -> bool:
    scheme, port = ("https", 443) if settings.HTTPS else ("http", 80)
    try:
        page, asked = urlsplit(origin), urlsplit(f"{scheme}://{host}")
        ports = (page.port or port, asked.port or port)
    except ValueError:
        return False
    same = (page.scheme, page.hostname) == (scheme, asked.hostname) and ports[0] == ports[1]
    name = f"[{asked.hostname}]" if ":" in (asked.hostname or "") else asked.hostname or ""
    return (same and validate_host(name, settings.ALLOWED_HOSTS)) or origin in settings.CSRF_TRUSTED_ORIGINS
