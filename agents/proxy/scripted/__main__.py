"""`python -m agents.proxy.scripted`: a scripted engine that answers every request with the same number of tokens."""

import argparse
import asyncio

from agents.proxy.scripted.engine import ScriptedEngine, Turn
from agents.proxy.scripted.server import serve


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m agents.proxy.scripted", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one; the address is printed")
    parser.add_argument("--tokens", type=int, default=200, help="tokens per reply")
    parser.add_argument("--token-id", type=int, default=30, help="the token that every reply repeats")
    parser.add_argument("--end-id", type=int, help="last token of every reply")
    parser.add_argument("--interval", type=float, default=0.0, help="seconds between the tokens of a streamed reply")
    options = parser.parse_args()
    ids = [options.token_id] * options.tokens + ([] if options.end_id is None else [options.end_id])
    engine = ScriptedEngine(lambda _: Turn(ids), token_interval_s=options.interval)
    async with serve(engine, port=options.port) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
