"""The process that simulates a what-if, so that the worker's threads stay free.

It reads one JSON object from stdin: {"inputs": base64, "question": {…}, "target": version | null | "ask",
"jobs": [[point, changes, seed], …]}, and prints one JSON line per thing that happened: {"target": …} first, then
{"point": …, "result": {…}} per job, or {"error": …} at the end. It ends when nobody reads any more.
"""

from __future__ import annotations

import base64
import json
import os
import sys

from scheduler.simulator.core import Stuck
from scheduler.simulator.scenarios import BadScenario
from scheduler.simulator.whatif.inputs import Inputs
from scheduler.simulator.whatif.points import simulate_point, target_version
from scheduler.simulator.whatif.question import Question

NICENESS = 10


def main() -> int:
    os.nice(NICENESS)
    asked = json.load(sys.stdin)
    inputs, question = Inputs.unpack(base64.b64decode(asked["inputs"])), Question.from_json(asked["question"])
    try:
        target = target_version(inputs, question) if asked["target"] == "ask" else asked["target"]
        _say({"target": target})
        for point, changes, seed in asked["jobs"]:
            _say({"point": point, "result": simulate_point(inputs, question, changes, seed, target)})
    except Stuck as error:
        _say({"error": f"the present settings get stuck: {error}"})
    except BadScenario as error:
        _say({"error": str(error)})
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
