"""OpenCode from npm, unmodified: a native binary that speaks OpenAI Chat Completions."""

from __future__ import annotations

import json

from agents.harness.drivers.base import PATIENCE_MS, PLACE, Assignment, Ended, HarnessReport, Launch, Packaged
from agents.harness.install.recipe import NPM_CPU, Recipe

_PACKAGE = f"opencode-linux-{NPM_CPU}"
_PROGRAM = f"node_modules/{_PACKAGE}/bin/opencode"
_QUIET = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
_CHECKSUMS = {
    "opencode-linux-x64@1.18.33": "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw==",  # noqa: E501
}


class OpenCode(Packaged):
    name = "opencode"
    version = "1.18.33"
    min_context_tokens = 10_000

    def recipe(self, version: str) -> Recipe:
        return Recipe(self.name, version, "npm", {_PACKAGE: version}, _PROGRAM, 177, _CHECKSUMS)

    def launch(self, assignment: Assignment) -> Launch:
        limit = {"context": assignment.context_tokens, "output": assignment.max_new_tokens}
        settings = {
            "provider": {
                "gyre": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "gyre",
                    "options": {
                        "baseURL": f"{assignment.base_url}/v1",
                        "apiKey": assignment.key,
                        "timeout": False,
                        "chunkTimeout": PATIENCE_MS,
                    },
                    "models": {"policy": {"name": "policy", "tool_call": True, "limit": limit}},
                }
            },
            "model": "gyre/policy",
            "small_model": "gyre/policy",
            "permission": "allow",
            "autoupdate": False,
            "share": "disabled",
        }
        env = {f"OPENCODE_DISABLE_{name}": "1" for name in _QUIET} | {"OPENCODE_CONFIG_CONTENT": json.dumps(settings)}
        return self.start(assignment, env, f"{PLACE}/{_PROGRAM}", "run", "--format", "json", "--auto")

    def report(self, ended: Ended) -> HarnessReport:
        """From its last event. Its exit code is 1 after any error, also after a prompt too long that it compacted."""
        last = [line for line in ended.json_lines() if line.get("type")][-1:]
        if not last or last[0]["type"] == "error":
            return HarnessReport(failure=json.dumps(last[0].get("error")) if last else "it wrote no event")
        part = last[0].get("part")
        return HarnessReport(completed=isinstance(part, dict) and part.get("reason") == "stop")


DRIVERS = (OpenCode(),)
