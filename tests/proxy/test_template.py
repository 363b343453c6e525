"""Chat templates are rendered as Hugging Face's own code renders them."""

from pathlib import Path

import pytest

from agents.proxy.canonical import BadRequest
from agents.proxy.rendering import Rendering
from tests.proxy import policies

TEMPLATE = """
{%- if 'secret' in messages[0].content %}{{ raise_exception('this is not said') }}{% endif %}
{%- for tool in tools or [] %}
    {{- tool | tojson(indent=2) }} {{ eos_token }}
{%- endfor %}
{% for m in messages %}
    {%- if m.role == 'system' %}{% continue %}{% endif %}
    <|im_start|>{{ m.role }}
{% generation %}{{ m.content | trim }} é <b>{% endgeneration %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{{ strftime_now('%Y') }}{% endif %}
"""
TOOL = {"type": "function", "function": {"name": "bash", "description": "a < b & 'c' é", "parameters": {}}}
MESSAGES = [
    {"role": "system", "content": "You are an agent."},
    {"role": "user", "content": " go "},
    {"role": "assistant", "content": "done\n"},
]


def test_a_template_gives_the_same_ids_as_the_official_code(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    rendering = Rendering(policies.write(tmp_path, "unheard_of", template=TEMPLATE))
    official = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for tools, prompted in ((None, False), ([TOOL], True)):
        options = {"tools": tools, "add_generation_prompt": prompted}
        expected = official.apply_chat_template(MESSAGES, return_dict=False, **options)
        assert rendering.renderer.render_ids(MESSAGES, **options) == expected


def test_what_a_template_cannot_say_it_refuses_in_its_own_words(tmp_path: Path) -> None:
    rendering = Rendering(policies.write(tmp_path, "unheard_of", template=TEMPLATE))
    with pytest.raises(BadRequest, match="cannot say this: this is not said"):
        rendering.whole([{"role": "user", "content": "a secret"}], None)
