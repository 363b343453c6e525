"""`manage.py capture --out FILE`: write down a harness's traffic, redacted, as `replay_traffic` reads it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError

from agents.proxy.traffic.capturing import Capture, Server
from agents.proxy.traffic.scripted import DEFAULT, BadScript, ScriptedModel


class Command(BaseCommand):
    help = (
        "Stand between a harness and its model and write down the traffic, without credentials and without vendors' "
        "long prompt texts. Point the harness's base URL at the printed address; Ctrl-C ends the capture. "
        "Needs no database."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the capture to write")
        model = parser.add_mutually_exclusive_group(required=True)
        model.add_argument("--upstream", metavar="URL", help="base URL of the model's server; requests go on to it")
        model.add_argument(
            "--scripted",
            nargs="?",
            const="",
            metavar="SCRIPT",
            help="answer from a script (JSON; without one: a command, then a final answer)",
        )
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
        parser.add_argument("--port", type=_port, default=0, help="port to listen on (default: any free one)")
        parser.add_argument("--full", action="store_true", help="keep prompt texts whole; credentials still go")
        parser.add_argument("--force", action="store_true", help="write over a file that is there")

    def handle(self, *, out: Path, upstream: str | None, scripted: str | None, **options: Any) -> None:
        if out.exists() and not options["force"]:
            raise CommandError(f"{out} is there already; --force writes over it")
        if upstream is not None and (why := _why_no_url(upstream)):
            raise CommandError(f"--upstream {upstream}: {why}; it looks like http://HOST:PORT or https://HOST/PATH")
        try:
            model = ScriptedModel(json.loads(Path(scripted).read_text()) if scripted else DEFAULT)
        except (OSError, json.JSONDecodeError, BadScript) as error:
            raise CommandError(f"--scripted {scripted}: {error}") from error
        try:
            capture = Capture(out, options["full"])
        except OSError as error:
            raise CommandError(f"--out {out}: {error.strerror or error}") from error
        server = Server(capture, upstream or "", model, self._say if options["verbosity"] > 1 else _silent)
        try:
            asyncio.run(self._serve(server, options["host"], options["port"]))
        except OSError as error:
            raise CommandError(f"cannot listen on {options['host']}:{options['port']}: {error}") from error
        finally:
            capture.close()
        self.stdout.write(f"{capture.num_requests} requests written to {out}")

    async def _serve(self, server: Server, host: str, port: int) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, ended.set)
        bound = await server.start(host, port)
        self.stdout.write(f"capturing on http://{host}:{bound} (OpenAI clients: http://{host}:{bound}/v1)")
        self.stdout.flush()
        try:
            await ended.wait()
        finally:
            await server.stop()

    def _say(self, line: str) -> None:
        self.stdout.write(line)


def _why_no_url(text: str) -> str:
    """Why a text is no base URL of a server; "" when it is one."""
    try:
        url = urlsplit(text)
        has_host = bool(url.hostname) and url.port != 0
    except ValueError as error:
        return str(error)
    if url.scheme not in ("http", "https"):
        return "the URL does not begin with http:// or https://"
    if not has_host or any(c.isspace() for c in text):
        return "the URL names no server"
    return "a base URL has no query and no fragment" if url.query or url.fragment else ""


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65_535:
        raise ValueError(port)
    return port


def _silent(line: str) -> None:
    """Nobody wants to hear it."""
