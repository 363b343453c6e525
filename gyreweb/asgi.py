"""The web process: pages and REST over http, the live feed over WebSocket, under uvicorn."""

import os
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gyreweb.settings")
# Static files are small and read at once, so Django's warning of a synchronous iterator does not apply.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")

pages = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402  (needs the app registry)
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from gyreweb.live.longpoll import LongPoll  # noqa: E402
from gyreweb.live.origin import SameOrigin  # noqa: E402
from gyreweb.live.routing import websocket_urlpatterns  # noqa: E402

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The ASGI lifespan protocol, acknowledged: there is nothing to start or stop."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


application = ProtocolTypeRouter(
    {
        "http": LongPoll(pages),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
        "lifespan": lifespan,
    }
)
