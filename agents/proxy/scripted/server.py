"""The scripted engine on a port: the part of SGLang's HTTP contract that Gyre uses."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
from aiohttp import web

from agents.proxy.scripted.engine import Aborted, Fault, Refused, ScriptedEngine

_PAUSED = {"message": "Generation paused successfully.", "status": "ok"}
_CONTINUED = {"message": "Generation continued successfully.", "status": "ok"}
_BRACKET = "{} must run between begin_weight_update() and end_weight_update()"


@contextlib.asynccontextmanager
async def serve(engine: ScriptedEngine, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve while the context is open; yields the engine's address."""
    runner = web.AppRunner(application(engine), access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    try:
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def application(engine: ScriptedEngine) -> web.Application:
    routes = _Routes(engine)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/generate", routes.generate)
    app.router.add_post("/pause_generation", routes.pause)
    app.router.add_post("/continue_generation", routes.resume)
    app.router.add_post("/abort_request", routes.abort)
    app.router.add_post("/flush_cache", routes.flush)
    app.router.add_post("/begin_weight_update", routes.begin_update)
    app.router.add_post("/update_weights_from_tensor", routes.update)
    app.router.add_post("/end_weight_update", routes.end_update)
    app.router.add_post("/update_weight_version", routes.set_version)
    app.router.add_get("/v1/loads", routes.loads)
    app.router.add_get("/model_info", routes.model_info)
    app.router.add_get("/health", routes.health)
    return app


class _Routes:
    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine

    async def generate(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        chunks = self.engine.generate(body)
        try:
            first = await anext(chunks)
        except Refused as refused:
            if str(refused) == Fault.FAIL:
                return _json({"error": {"message": "failed"}}, 500)
            error = {"message": str(refused), "type": "invalid_request_error", "code": 400, "retryable": False}
            return _error_stream(error) if body.get("stream") else _json({"error": error}, 400)
        except Aborted:
            return _cut(request)
        if not body.get("stream"):
            return _json(first)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await response.write(_sse(first))
            async for chunk in chunks:
                await response.write(_sse(chunk))
            await response.write(b"data: [DONE]\n\n")
        except Aborted:
            return _cut(request)
        finally:
            await chunks.aclose()
        return response

    async def pause(self, request: web.Request) -> web.Response:
        body = await _body(request)
        self.engine.pause(body.get("mode", "abort"))
        return _json(_PAUSED)

    async def resume(self, request: web.Request) -> web.Response:
        self.engine.resume()
        return _json(_CONTINUED)

    async def abort(self, request: web.Request) -> web.Response:
        body = await _body(request)
        if body.get("abort_all") or body.get("rid"):
            self.engine.abort("" if body.get("abort_all") else body["rid"])
        return web.Response()

    async def flush(self, request: web.Request) -> web.Response:
        flushed = self.engine.flush()
        return web.Response(status=200 if flushed else 400, text="Cache flushed.\n" if flushed else "busy")

    async def begin_update(self, request: web.Request) -> web.Response:
        if self.engine.is_updating:
            return _json({"success": False, "message": "a weight update is open"}, 400)
        self.engine.is_updating = True
        return _json({"success": True, "message": "begun"})

    async def update(self, request: web.Request) -> web.Response:
        if not self.engine.is_updating:
            return _json({"success": False, "message": _BRACKET.format("update_weights_from_tensor")}, 400)
        body = await _body(request)
        self.engine.weight_version = body.get("weight_version") or self.engine.weight_version
        return _json({"success": True, "message": "updated"})

    async def end_update(self, request: web.Request) -> web.Response:
        self.engine.is_updating = False
        return _json({"success": True, "message": "ended"})

    async def set_version(self, request: web.Request) -> web.Response:
        body = await _body(request)
        if body.get("abort_all_requests", True):
            self.engine.abort("")
        self.engine.weight_version = body["new_version"]
        return _json({"success": True, "message": "set", "new_version": body["new_version"]})

    async def loads(self, request: web.Request) -> web.Response:
        load = {"dp_rank": 0, "num_running_reqs": len(self.engine.running), "num_waiting_reqs": 0}
        return _json({"loads": [load]})

    async def model_info(self, request: web.Request) -> web.Response:
        return _json({"model_path": "scripted", "weight_version": self.engine.weight_version})

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()


async def _body(request: web.Request) -> dict[str, Any]:
    raw = await request.read()
    return orjson.loads(raw) if raw else {}


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _error_stream(error: dict[str, Any]) -> web.Response:
    body = _sse({"error": error}) + b"data: [DONE]\n\n"
    return web.Response(body=body, content_type="text/event-stream")


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


def _sse(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
