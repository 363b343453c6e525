"""Policy folders of other families than the bundled one: its tokenizer, with the marks that each family needs."""

import json
from pathlib import Path

from renderers.base import MODEL_RENDERER_MAP
from tokenizers import AddedToken, Tokenizer

from agents.proxy.families import SHAPES
from agents.proxy.rendering import BUNDLED_POLICY

#: A published model of each family that the table of shapes knows.
KNOWN_AS = {name: known_as for known_as, name in MODEL_RENDERER_MAP.items() if name in SHAPES}

_MARKS = """
<|im_start|> <|im_end|> <|endoftext|> <think> </think> <tool_call> </tool_call> <tool_response> </tool_response>
<|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|> [gMASK] <sop> <|system|> <|user|> <|assistant|>
<|observation|> <arg_key> </arg_key> <arg_value> </arg_value> ]~!b[ ]~b] [e~[ <minimax:tool_call> </minimax:tool_call>
<|begin_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|end_of_text|> <|eom_id|> <|im_user|>
<|im_assistant|> <|im_system|> <|im_middle|> <|tool_calls_section_begin|> <|tool_calls_section_end|>
<|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|> <|media_begin|> <|media_content|> <|media_pad|>
<|media_end|> <bos> <eos> <|turn> <turn|> <|channel> <channel|> <|think|> <|tool> <tool|> <|tool_call> <tool_call|>
<|tool_response> <tool_response|> <|image> <|image|> <image|> <|message_user|> <|message_model|> <|message_system|>
<|message_tool|> <|content_text|> <|content_thinking|> <|content_image|> <|content_audio_input|> <|content_xml|>
<|content_invoke_tool_json|> <|content_invoke_tool_text|> <|content_model_end_sampling|> <|end_message|>
<|audio_end|> <|unused_200054|> <|unused_200053|> ｜DSML｜
"""
_NAMES = """
begin▁of▁sentence end▁of▁sentence User Assistant tool▁calls▁begin tool▁calls▁end tool▁call▁begin tool▁call▁end tool▁sep
tool▁outputs▁begin tool▁outputs▁end tool▁output▁begin tool▁output▁end latest_reminder action query authority domain
title read_url
"""
MARKS = [*_MARKS.split(), *(f"<｜{name}｜>" for name in _NAMES.split())]

CHAT_TEMPLATE = """
{%- if tools %}{{ '<|im_start|>system\\n' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}
{%- for c in m.tool_calls or [] %}{{ '<tool_call>' + ({'name': c.function.name, 'arguments': c.function.arguments}
 | tojson) + '</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""


def write(folder: Path, model_type: str = "", known_as: str = "", template: str = "", without: str = "") -> Path:
    """A folder that can be rendered, without weights; `without`: a mark that its vocabulary lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = (BUNDLED_POLICY / "tokenizer.json").read_text()
    tokenizer = Tokenizer.from_str(vocabulary.replace(f'"{without}"', '"<|none|>"') if without else vocabulary)
    tokenizer.add_special_tokens(
        [AddedToken(mark, special=True, normalized=False) for mark in MARKS if mark != without]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings | ({"chat_template": template} if template else {}))
    )
    config = {"model_type": model_type, "max_position_embeddings": 8192, "_name_or_path": known_as}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_unfit(folder: Path) -> Path:
    """A policy that a run could load, but whose template refuses every conversation of more than three messages."""
    refusal = "{%- if messages | length > 3 %}{{ raise_exception('only three messages fit') }}{% endif %}"
    write(folder, "unheard_of", template=refusal + CHAT_TEMPLATE)
    (folder / "model.safetensors").write_bytes(b"")
    return folder
