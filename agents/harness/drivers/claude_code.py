"""Claude Code from npm, unmodified: a native binary that speaks Anthropic Messages."""

from __future__ import annotations

from agents.harness.drivers.base import PATIENCE_MS, PLACE, Assignment, Ended, HarnessReport, Launch, Packaged
from agents.harness.install.recipe import NPM_CPU, Recipe

_PACKAGE = f"@anthropic-ai/claude-code-linux-{NPM_CPU}"
_PROGRAM = f"node_modules/{_PACKAGE}/claude"
_MODELS = ("ANTHROPIC_MODEL", *(f"ANTHROPIC_DEFAULT_{size}_MODEL" for size in ("OPUS", "SONNET", "HAIKU", "FABLE")))
_QUIET = (
    "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY", "IS_SANDBOX",
)  # fmt: skip
_CHECKSUMS = {
    "@anthropic-ai/claude-code-linux-x64@2.1.220": "sha512-3CGFCnI0gpgsqNeJruFALBDGJaKXOuok3alQEg56ty2yOPpIrOx/r2Y0+T4uhJl7kP5Hzw4IFkxo4DZKWvzQ7Q==",  # noqa: E501
}
_PATIENT = ("API_TIMEOUT_MS", "CLAUDE_STREAM_IDLE_TIMEOUT_MS", "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS")


class ClaudeCode(Packaged):
    name = "claude-code"
    version = "2.1.220"
    min_context_tokens = 24_000

    def recipe(self, version: str) -> Recipe:
        return Recipe(self.name, version, "npm", {_PACKAGE: version}, _PROGRAM, 263, _CHECKSUMS)

    def launch(self, assignment: Assignment) -> Launch:
        env = {
            **dict.fromkeys(_QUIET, "1"),
            **dict.fromkeys(_PATIENT, str(PATIENCE_MS)),
            **dict.fromkeys(_MODELS, "policy"),
            "API_FORCE_IDLE_TIMEOUT": "0",
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(assignment.context_tokens),
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(assignment.max_new_tokens),
            "ANTHROPIC_BASE_URL": assignment.base_url,
            "ANTHROPIC_API_KEY": assignment.key,
        }
        return self.start(
            assignment, env, f"{PLACE}/{_PROGRAM}", "-p", "--output-format", "stream-json", "--verbose",
            "--dangerously-skip-permissions",
        )  # fmt: skip

    def report(self, ended: Ended) -> HarnessReport:
        """From its last line of output, {"type": "result", …}; one that was killed has written none."""
        result = [line for line in ended.json_lines() if line.get("type") == "result"][-1:]
        if not result:
            return HarnessReport(failure="it wrote no result")
        turns = result[0].get("subtype") == "error_max_turns"
        failed = result[0].get("is_error") and not turns
        return HarnessReport(hit_turn_limit=turns, failure=str(result[0].get("result", "error")) if failed else "")


DRIVERS = (ClaudeCode(),)
