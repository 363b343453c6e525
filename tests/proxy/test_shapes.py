"""Whatever harnesses send is said to every family in a form that its template knows, and what was said stays."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.proxy import canonical, probing, shaping
from agents.proxy.canonical import BadRequest, ModelRequest, Sampling
from agents.proxy.families import SHAPES, TEMPLATE
from agents.proxy.history import CallHistory
from agents.proxy.probes import PROBES
from agents.proxy.profiles import PROFILES
from agents.proxy.rendering import BadPolicyFolder, CannotSay, Rendering
from agents.proxy.shaping import Shape
from tests.proxy import policies
from tests.support.docs_tables import DocsTable

SYSTEM, USER = {"role": "system", "content": "You are an agent."}, {"role": "user", "content": "go"}
TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}

TABLE = DocsTable("proxy-dialects.md", "shapes")
REWRITE = ".venv/bin/python -m tests.proxy.test_shapes"

ALTERNATING = """
{%- for m in messages %}
    {%- if m.role not in ('user', 'assistant') %}{{ raise_exception('Only user and assistant roles are supported') }}{% endif %}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}
    {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""  # noqa: E501
#: It forgets the system messages after the first one, and walks through schemas.
FORGETFUL = """
{%- for t in tools or [] %}{{ t.function.name ~ t.function.description }}
{%- for name, p in t.function.parameters.properties.items() %}{{ name ~ p.type }}{% endfor %}{% endfor %}
{%- for m in messages %}{% if m.role != 'system' or loop.first %}
    {{- '<|im_start|>' + m.role + '\n' + m.content }}
    {%- for c in m.tool_calls or [] %}{{ c.function.name }}{% for k, v in c.function.arguments.items() %}{{ k ~ v }}{% endfor %}{% endfor %}
    {{- '<|im_end|>\n' }}
{%- endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""  # noqa: E501


def table() -> str:
    """What differs from family to family, as a table."""
    names = [field.name for field in fields(Shape)]
    lines = [f"| family | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for family, shape in SHAPES.items():
        cells = [getattr(shape, name) if getattr(shape, name) != getattr(Shape(), name) else "" for name in names]
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_docs_show_what_each_family_can_say() -> None:
    assert TABLE.shown() == table(), f"docs/proxy-dialects.md is not what is true now: {REWRITE}"


def _asked(rendering: Rendering) -> Callable[[list[Any], list[Any] | None], str]:
    """The template itself, without anything that is done for it."""

    def text(messages: list[Any], tools: list[Any] | None) -> str:
        ids = rendering.renderer.render_ids(messages, tools=tools, add_generation_prompt=True)
        return rendering.tokenizer.decode(ids)

    return text


def _lost(rendering: Rendering, shape: Shape) -> dict[str, str]:
    return {probe.name: lost for probe in PROBES if (lost := probing.loss(_asked(rendering), shape, probe))}


@pytest.mark.parametrize("name", SHAPES)
def test_the_table_is_what_each_template_says_when_it_is_asked(name: str, tmp_path: Path) -> None:
    rendering = Rendering(policies.write(tmp_path, known_as=policies.KNOWN_AS[name]))
    assert rendering.family == name
    assert _lost(rendering, SHAPES[name]) == {}
    assert probing.shape_of(_asked(rendering)) == SHAPES[name]


@pytest.mark.parametrize(
    ("template", "shape"),
    [
        (policies.CHAT_TEMPLATE, Shape()),
        (ALTERNATING, Shape("nowhere", "user", "alternate", "text", "text", offers="text")),
        (FORGETFUL, Shape("first", arguments="object", schemas="plain")),
    ],
)
def test_a_template_that_no_table_knows_is_asked(template: str, shape: Shape, tmp_path: Path) -> None:
    rendering = Rendering(policies.write(tmp_path, "unheard_of", template=template))
    assert (rendering.family, rendering.shape) == (TEMPLATE, shape)
    assert _lost(rendering, shape) == {}


# -- what stays ---------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["", "read", "the file"])
CALLS = st.lists(st.sampled_from([{"command": "ls"}, {}, "no object", None, ["a"]]), min_size=1, max_size=2)


@st.composite
def replies(draw: st.DrawFn) -> dict[str, Any]:
    """An assistant's message, of the policy or of the harness."""
    calls = draw(st.one_of(st.none(), CALLS))
    made = [canonical.tool_call(f"c{i}", "bash", arguments) for i, arguments in enumerate(calls or [])]
    return canonical.assistant(draw(WORDS), made)


OTHERS = st.builds(
    lambda role, text: {"role": role, "content": text, **({"tool_call_id": "c0"} if role == "tool" else {})},
    st.sampled_from(["system", "user", "tool"]),
    WORDS,
)
RUNS = st.lists(OTHERS, min_size=1, max_size=4)
ALL_SHAPES = st.builds(
    Shape,
    st.sampled_from(["anywhere", "joined", "first", "nowhere"]),
    st.sampled_from(["anyone", "user"]),
    st.sampled_from(["free", "alternate"]),
    st.sampled_from(["many", "one", "text"]),
    st.sampled_from(["anywhere", "called", "text"]),
    st.sampled_from(["anything", "object"]),
)


@given(ALL_SHAPES, RUNS, st.lists(st.tuples(replies(), RUNS), min_size=1, max_size=4))
def test_what_was_said_before_a_reply_stays_as_it_was(shape: Shape, opening: list, rest: list) -> None:
    messages, before = opening, shaping.conversation(opening, shape)
    for reply, run in rest:
        messages = [*messages, reply, *run]
        said = shaping.conversation(messages, shape)
        assert said[: len(before)] == before
        before = said


@given(ALL_SHAPES, RUNS, st.lists(st.tuples(replies(), RUNS), max_size=3))
def test_nothing_that_was_said_is_lost(shape: Shape, opening: list, rest: list) -> None:
    messages = [*opening, *(message for reply, run in rest for message in (reply, *run))]
    numbered = [
        message | {"content": f"{message['content']} {i}!" if message["content"] else ""}
        for i, message in enumerate(messages)
    ]
    said = "\n".join(str(message["content"]) for message in shaping.conversation(numbered, shape))
    places = [said.find(message["content"]) for message in numbered if message["content"]]
    assert -1 not in places
    assert places == sorted(places)


EXTENDING = ["qwen3", "qwen3-vl", "qwen3.5", "qwen3.6", "qwen3.8", "nemotron-3", "minimax-m2", "llama-3", "kimi-k2"]


@pytest.fixture(scope="module")
def renderings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rendering]:
    folder = tmp_path_factory.mktemp("families")
    return {name: Rendering(policies.write(folder / name, known_as=policies.KNOWN_AS[name])) for name in EXTENDING}


@pytest.mark.parametrize("name", EXTENDING)
@settings(max_examples=25)
@given(RUNS, st.lists(st.tuples(WORDS, st.one_of(st.none(), replies()), RUNS), min_size=1, max_size=4))
def test_a_later_request_begins_with_all_recorded_ids_whatever_stands_in_it(
    renderings: dict[str, Rendering], name: str, opening: list, rest: list
) -> None:
    """Replies of the policy, turns that the harness wrote itself behind them, systems and results anywhere."""
    rendering = renderings[name]
    history = CallHistory(PROFILES["generic"], rendering)
    messages: list[dict[str, Any]] = list(opening)
    path: list[int] = []
    for number, (word, own_turn, run) in enumerate(rest):
        request = ModelRequest("openai_chat", messages, [TOOL], Sampling(), stream=False)
        prepared = history.begin(number, request, history.prepare(request, {}))
        assert prepared.input_ids.tolist()[: len(path)] == path
        assert prepared.departure is None
        reply = canonical.assistant(f"{word} {number}")
        sampled = [*rendering.tokenizer.encode(reply["content"]), rendering.close_id]
        history.add(prepared.prior_call(number, len(request.messages), np.asarray(sampled, np.int32), reply))
        path = prepared.input_ids.tolist() + sampled
        messages = [*request.messages, reply, *([own_turn] if own_turn else []), *run]


# -- what a template may do ---------------------------------------------------------------------------------------

FAILURES = {
    "{{ raise_exception('not this') }}": "not this",
    "{{ m.nothing.more }}": "has no attribute 'nothing'",
    "{{ 1 + m.content }}": "unsupported operand",
    "{{ m['content']['role'] + 1 }}": "",
    "{% macro deep(v) %}{{ deep(v) }}{% endmacro %}{{ deep(1) }}": "nested too deep",
    "{{ m.content.__class__.__mro__ }}": "unsafe",
    "{{ range(10 ** 9) | list }}": "Range too big",
    "{{ 1 // 0 }}": "ZeroDivisionError",
    "{{ '%d' | format('x') }}": "",
    "{{ m | tojson(indent=cycle) }}": "",
    "{% include 'other' %}": "",
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_template_that_fails_over_a_request_in_any_way_refuses_it_in_its_own_words(
    failure: str, tmp_path: Path
) -> None:
    template = "{%- for m in messages %}{% if m.content == 'secret' %}" + failure + "{% endif %}{{ m.content }}"
    template += "{% endfor %}"
    rendering = Rendering(policies.write(tmp_path, "unheard_of", template=template))
    assert rendering.whole([USER], None)
    with pytest.raises(CannotSay, match="the policy's chat template cannot say this: .*" + FAILURES[failure]):
        rendering.whole([{"role": "user", "content": "secret"}], None)
    assert issubclass(CannotSay, BadRequest)


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"in": schema}}
    return schema


@pytest.mark.parametrize("name", SHAPES)
def test_schemas_nested_far_too_deep_are_refused(name: str, tmp_path: Path) -> None:
    rendering = Rendering(policies.write(tmp_path, known_as=policies.KNOWN_AS[name]))
    shallow, deep = (
        {"type": "function", "function": {"name": "bash", "parameters": _nested(depth)}} for depth in (60, 2000)
    )
    assert len(rendering.whole([USER], [shallow])) > 60
    with pytest.raises(CannotSay, match=r"nested too deep$"):
        rendering.whole([USER], [deep])


def test_a_turn_of_the_harness_that_a_template_fails_over_is_refused_too(tmp_path: Path) -> None:
    rendering = Rendering(policies.write(tmp_path, known_as=policies.KNOWN_AS["qwen3.5"]))
    deep: Any = "end"
    for _ in range(5000):
        deep = [deep]
    turn = canonical.assistant("", [{"id": "c0", "type": "function", "function": {"name": "bash", "arguments": deep}}])
    with pytest.raises(CannotSay, match="nested too deep"):
        rendering.prompt([USER, turn, USER], None)
    with pytest.raises(CannotSay, match="nested too deep"):
        rendering.assistant(turn)


@pytest.mark.parametrize("sampled", ['{"name": "bash", "arguments": {"n": ' + "9" * 5000 + "}}", "[" * 100_000])
def test_a_sampled_call_that_no_parser_reads_stops_no_later_request(sampled: str, tmp_path: Path) -> None:
    rendering = Rendering(policies.write(tmp_path, "unheard_of", template=policies.CHAT_TEMPLATE))
    ids = rendering.tokenizer.encode(f"read<tool_call>{sampled}</tool_call>")
    assert rendering.reasoning_of(ids) == ""


@pytest.mark.parametrize("template", ["{% for m in messages %}", "{{ messages[7].content.x }}"])
def test_a_policy_whose_template_says_nothing_at_all_is_refused_by_name(template: str, tmp_path: Path) -> None:
    with pytest.raises(BadPolicyFolder, match=f"{tmp_path.name}.* chat template"):
        Rendering(policies.write(tmp_path, "unheard_of", template=template))


def test_a_llama_says_two_calls_and_a_text_one_after_another(tmp_path: Path) -> None:
    rendering = Rendering(policies.write(tmp_path, known_as=policies.KNOWN_AS["llama-3"]))
    calls = [canonical.tool_call(f"c{i}", "bash", {"command": c}) for i, c in enumerate(("ls", "cat"))]
    said = rendering.tokenizer.decode(rendering.turn(canonical.assistant("both", calls)))
    head = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    turns = ["both", *(json.dumps({"name": "bash", "parameters": {"command": c}}) for c in ("ls", "cat"))]
    assert said == "".join(f"{head}{turn}<|eot_id|>" for turn in turns)
    assert head + rendering.tokenizer.decode(rendering.assistant(canonical.assistant("both", calls))) == said


if __name__ == "__main__":
    TABLE.write(table())
