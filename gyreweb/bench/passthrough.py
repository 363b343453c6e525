"""The baseline of the proxy's benchmark: a bare pass-through with the same server, upstream client and JSON decoding.

It records nothing, renders nothing and parses nothing: what is left of the proxy when all that it is for is taken away.
"""

from __future__ import annotations

import argparse
import socket
from dataclasses import dataclass
from typing import Any

import orjson
import uvicorn

from agents.proxy.engine import EngineClient, payload


@dataclass(slots=True)
class PassThrough:
    """Every request becomes one /generate with a fixed prompt; every chunk one event."""

    engine_url: str
    prompt: list[int]
    _engines: EngineClient | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        request = orjson.loads(raw)
        stream = bool(request.get("stream"))
        params = {"max_new_tokens": request.get("max_tokens", 256), "temperature": 1.0}
        body = payload(self.prompt, rid="", extra_key="", sampling_params=params, stream=stream)
        kind = b"text/event-stream" if stream else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        assert self._engines is not None
        async for chunk in self._engines.generate(self.engine_url, "", body, stream):
            text = orjson.dumps({"choices": [{"index": 0, "delta": {"content": str(chunk["output_ids"])}}]})
            out = b"data: " + text + b"\n\n" if stream else text
            await send({"type": "http.response.body", "body": out, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n" if stream else b""})

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        self._engines = EngineClient()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._engines.close()
        await send({"type": "lifespan.shutdown.complete"})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gyreweb.bench.passthrough", description=__doc__)
    parser.add_argument("engine_url")
    parser.add_argument("--prompt-tokens", type=int, default=1000)
    options = parser.parse_args()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(f"pass-through on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        PassThrough(options.engine_url, [1] * options.prompt_tokens),
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
