"""A small engine that speaks SGLang's contract and says what its script says: for tests, replays and benchmarks.

`tests/integration/test_engine_contract.py` holds it to the same cases as the real server.
"""

from agents.proxy.scripted.engine import Fault, ScriptedEngine, Turn, logprob_of
from agents.proxy.scripted.server import serve

__all__ = ["Fault", "ScriptedEngine", "Turn", "logprob_of", "serve"]
