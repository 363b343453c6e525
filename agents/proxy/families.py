"""Which renderer of the `renderers` package speaks for a policy folder, and what marks thoughts and tool calls.

A folder that says which published model it is (`_name_or_path`) is looked up by that name; else its `model_type`
decides, and among the Qwen 3.5 line the features of its chat template. A family that nobody wrote a renderer for is
rendered through its own chat template: exact, but no call can be built by extension then.

`SHAPES` says what the template of each family can say. A test asks every one of them for it (`agents.proxy.probing`); a
family that is not in the table is asked when its policy is loaded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from renderers.base import MODEL_RENDERER_MAP

from agents.proxy.shaping import Shape

#: `model_type` of a policy's config.json -> name of its renderer.
_BY_TYPE = {
    "qwen2": "qwen3",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3",
    "qwen3_5": "qwen3.5",
    "qwen3_5_moe": "qwen3.5",
    "qwen3_vl": "qwen3-vl",
    "qwen3_vl_moe": "qwen3-vl",
    "llama": "llama-3",
    "glm4_moe": "glm-4.5",
    "glm_moe_dsa": "glm-5",
    "gemma4": "gemma4",
    "deepseek_v3": "deepseek-v3",
    "deepseek_v4": "deepseek-v4",
    "kimi_k2": "kimi-k2",
    "kimi_k25": "kimi-k2.5",
    "gpt_oss": "gpt-oss",
    "minimax_m2": "minimax-m2",
    "nemotron_h": "nemotron-3",
    "inkling": "inkling",
}
#: Rendered through the folder's own chat template.
TEMPLATE = "default"
_TOOL_MARKS = ("<tool_call>", "</tool_call>")
_MARKED = ("qwen3", "prime-qwen3", "glm-", "nemotron-3", "laguna-", TEMPLATE)

_ANYTHING = Shape()
_NAMED_ARGUMENTS = Shape(arguments="object")
_SYSTEM_FIRST = Shape(systems="first", arguments="object")
#: Name of a renderer -> what its template can say.
SHAPES = {
    "qwen3": _ANYTHING,
    "prime-qwen3": _NAMED_ARGUMENTS,
    "qwen3-vl": Shape(systems="first"),
    "qwen3.5": _SYSTEM_FIRST,
    "qwen3.6": _SYSTEM_FIRST,
    "qwen3.8": Shape(systems="first", opening="user", arguments="object"),
    "nemotron-3": Shape(systems="first", arguments="object", schemas="plain"),
    "nemotron-3-ultra": Shape(systems="first", arguments="object", schemas="plain"),
    "nemotron-3.5": Shape(systems="first", arguments="object", schemas="plain"),
    "minimax-m2": _SYSTEM_FIRST,
    "llama-3": Shape(systems="joined", opening="user", calls="one"),
    "kimi-k2": _ANYTHING,
    "kimi-k2.5": Shape(schemas="typed"),
    "glm-4.5": _NAMED_ARGUMENTS,
    "glm-5": _NAMED_ARGUMENTS,
    "glm-5.1": _NAMED_ARGUMENTS,
    "glm-5.3": _NAMED_ARGUMENTS,
    "gemma4": Shape(results="called", arguments="object"),
    "deepseek-v3": Shape(offers="text"),
    "deepseek-r1": Shape(offers="text"),
    "deepseek-v4": _ANYTHING,
    "inkling": _NAMED_ARGUMENTS,
}


class BadPolicyFolder(ValueError):
    """The folder is no policy that can be rendered; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Family:
    """How a policy's conversations are rendered and its replies are read."""

    renderer: str
    #: Tokens around a tool call; None: a reply can only be read when it is whole.
    tool_marks: tuple[str, str] | None

    @property
    def shape(self) -> Shape | None:
        """None: its template has to be asked."""
        return SHAPES.get(self.renderer)


def family(folder: Path, config: dict[str, Any]) -> Family:
    """The family of a policy folder; `config` is its config.json. Raises BadPolicyFolder."""
    kind, known_as = config.get("model_type"), config.get("_name_or_path")
    template = chat_template(folder)
    name = MODEL_RENDERER_MAP.get(str(known_as)) or _BY_TYPE.get(str(kind))
    if name == "qwen3.5" and "preserve_thinking" in template:
        name = "qwen3.8" if "reasoning_effort" in template else "qwen3.6"
    if name is None and template:
        name = TEMPLATE
    if name is None:
        known = ", ".join(sorted(_BY_TYPE))
        raise BadPolicyFolder(f"{folder}: no renderer for model_type {kind!r} and no chat template; known: {known}")
    if name == "minimax-m2":
        return Family(name, ("<minimax:tool_call>", "</minimax:tool_call>"))
    return Family(name, _TOOL_MARKS if name.startswith(_MARKED) else None)


def chat_template(folder: Path) -> str:
    """The folder's Jinja template, "" when it has none. Raises BadPolicyFolder."""
    try:
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise BadPolicyFolder(f"{folder}: chat_template.jinja cannot be read: {error}") from error
    if not (folder / "tokenizer_config.json").exists():
        return ""
    template = settings(folder, "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else ""


def settings(folder: Path, name: str) -> dict[str, Any]:
    """What one of the folder's JSON files holds. Raises BadPolicyFolder."""
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadPolicyFolder(f"{folder} is no policy folder: {name} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise BadPolicyFolder(f"{folder} is no policy folder: {name} is no JSON object")
    return found
