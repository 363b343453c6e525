"""Codex from npm, unmodified: a native binary that speaks OpenAI Responses."""

from __future__ import annotations

from agents.harness.drivers.base import PATIENCE_MS, PLACE, Assignment, Ended, HarnessReport, Launch, Packaged
from agents.harness.install.recipe import NPM_CPU, Recipe

_TRIPLE = {"x64": "x86_64-unknown-linux-musl", "arm64": "aarch64-unknown-linux-musl"}.get(NPM_CPU, "")
_PROGRAM = f"node_modules/@openai/codex-linux-{NPM_CPU}/vendor/{_TRIPLE}/bin/codex"
_CHECKSUMS = {
    "@openai/codex-linux-x64@0.171.0-linux-x64": "sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==",  # noqa: E501
}


class Codex(Packaged):
    name = "codex"
    version = "0.171.0"
    min_context_tokens = 14_000

    def recipe(self, version: str) -> Recipe:
        return Recipe(self.name, version, "npm", {"@openai/codex": version}, _PROGRAM, 424, _CHECKSUMS)

    def launch(self, assignment: Assignment) -> Launch:
        context = assignment.context_tokens
        settings = {
            "model_provider": '"gyre"',
            "model_providers.gyre.name": '"gyre"',
            "model_providers.gyre.base_url": f'"{assignment.base_url}/v1"',
            "model_providers.gyre.env_key": '"OPENAI_API_KEY"',
            "model_providers.gyre.wire_api": '"responses"',
            "model_providers.gyre.stream_idle_timeout_ms": str(PATIENCE_MS),
            "model_context_window": str(context),
            "model_auto_compact_token_limit": str(max(1, context * 9 // 10 - assignment.max_new_tokens)),
            "check_for_update_on_startup": "false",
            "analytics.enabled": "false",
        }
        chosen = [part for key, value in settings.items() for part in ("--config", f"{key}={value}")]
        env = {"OPENAI_API_KEY": assignment.key, "CODEX_HOME": f"{assignment.home}/.codex"}
        return self.start(
            assignment, env, f"{PLACE}/{_PROGRAM}", "exec", "--json", "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox", "--model", "policy", *chosen, "-",
            setup='mkdir -p "$CODEX_HOME"',
        )  # fmt: skip

    def report(self, ended: Ended) -> HarnessReport:
        """From its events: a turn that came to its end says so."""
        events = [line for line in ended.json_lines() if str(line.get("type", "")).startswith(("turn.", "error"))]
        if any(event["type"] == "turn.completed" for event in events[-1:]):
            return HarnessReport()
        said = next((event.get("error") or event.get("message") for event in reversed(events)), None)
        return HarnessReport(failure=str(said or "its turn did not end"))


DRIVERS = (Codex(),)
