"""Test support: a WebSocket client that speaks ASGI to our application, without a server in between."""

from __future__ import annotations

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator


class Listener:
    """One socket. `connected` says whether the handshake was accepted."""

    def __init__(self, application: Any, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        address, _, query = path.partition("?")
        scope = {
            "type": "websocket", "path": address, "query_string": query.encode(), "headers": headers,
            "subprotocols": [], "server": ("localhost", 80), "client": ("127.0.0.1", 5), "scheme": "ws",
        }  # fmt: skip
        self.connected = False
        self._socket = ApplicationCommunicator(application, scope)

    async def connect(self, timeout: float) -> None:
        await self._socket.send_input({"type": "websocket.connect"})
        self.connected = (await self.receive_output(timeout))["type"] == "websocket.accept"

    async def receive_output(self, timeout: float) -> dict[str, Any]:
        message: dict[str, Any] = await self._socket.receive_output(timeout)
        return message

    async def receive_json_from(self, timeout: float) -> dict[str, Any]:
        message = await self.receive_output(timeout)
        found: dict[str, Any] = json.loads(message["text"])
        return found

    async def send(self, frame: dict[str, Any]) -> None:
        """A frame: `text` or `bytes`."""
        await self._socket.send_input({"type": "websocket.receive", **frame})

    async def send_json_to(self, value: Any) -> None:
        await self.send({"text": json.dumps(value)})

    async def disconnect(self, timeout: float) -> None:
        await self._socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._socket.wait(timeout)
