"""Policies of other families: extended where their renderer can, else rendered whole, and read in their own format."""

import json
from pathlib import Path

import pytest

from agents.proxy.parsing import ReplyParser
from agents.proxy.rendering import BadPolicyFolder, CannotBridge, Rendering
from agents.proxy.replies import Reply
from tests.proxy import policies

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}, "seconds": {"type": "integer"}},
            },
        },
    }
]
OPENING = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "go"}]
RESULT = {"role": "tool", "content": "apple", "tool_call_id": "1"}
CALL = {
    "role": "assistant",
    "content": "read",
    "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "bash", "arguments": {"command": "ls", "seconds": 3}}}
    ],
}
EXTENDING = {
    "qwen3": "qwen3",
    "Qwen3.5": "qwen3_5",
    "Qwen/Qwen3.6-35B-A3B": "qwen3_5_moe",
    "Qwen/Qwen3.8-27B": "qwen3_5",
    "nemotron": "nemotron_h",
    "minimax": "minimax_m2",
    "llama": "llama",
    "kimi": "kimi_k2",
}


@pytest.fixture(params=EXTENDING, ids=lambda name: name.rsplit("/", 1)[-1])
def extending(request: pytest.FixtureRequest, tmp_path: Path) -> Rendering:
    return Rendering(policies.write(tmp_path, EXTENDING[request.param], request.param))


@pytest.fixture
def templated(tmp_path: Path) -> Rendering:
    return Rendering(policies.write(tmp_path, "unheard_of", template=policies.CHAT_TEMPLATE))


def _read(rendering: Rendering, text: str) -> tuple[Reply, int]:
    """A sampled text, token by token; and how many pieces had come before its last token."""
    parser, num_early = ReplyParser(rendering, tools=TOOLS), 0
    ids = rendering.tokenizer.encode(text)
    for i in ids:
        num_early += len(parser.feed([i]))
    parser.feed([rendering.close_id])
    parser.finish()
    return parser.reply, num_early


def test_a_sampled_reply_stays_as_it_is_in_the_next_request(extending: Rendering) -> None:
    said = [*extending.tokenizer.encode("read the file"), extending.close_id]
    context = extending.prompt(OPENING, TOOLS) + said
    reply = {"role": "assistant", "content": "read the file"}
    later = extending.prompt([*OPENING, reply, RESULT], TOOLS, lambda _: said)
    assert later[: len(context)] == context
    assert later == context + extending.continuation([RESULT], "reply").ids
    assert later[-len(extending.generation_prompt) :] == extending.generation_prompt


def test_a_turn_that_nobody_sampled_has_the_templates_own_form(extending: Rendering) -> None:
    turn = extending.turn(CALL)
    assert turn[-1] in extending.stop_ids
    decoded = extending.tokenizer.decode(extending.prompt([*OPENING, CALL, RESULT], TOOLS))
    assert extending.tokenizer.decode(turn) in decoded


@pytest.mark.parametrize("name", ["Qwen3.5", "Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen3.8-27B", "nemotron"])
def test_the_qwen_3_5_line_thinks_at_once_and_calls_tools_in_its_own_format(tmp_path: Path, name: str) -> None:
    rendering = Rendering(policies.write(tmp_path, EXTENDING[name], name))
    arguments = {"command": "ls", "seconds": 3}
    said = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items())
    call = f"<tool_call>\n<function=bash>\n{said}</function>\n</tool_call>"
    reply, num_early = _read(rendering, f"read the file\n</think>\n\ndone\n\n{call}")
    assert (reply.reasoning, reply.content) == ("read the file", "done")
    [use] = reply.tool_calls
    assert (use.name, use.arguments) == ("bash", arguments)
    assert not reply.malformed
    assert num_early > 3


def test_the_context_of_a_model_that_also_sees_is_that_of_its_text_part(tmp_path: Path) -> None:
    folder = policies.write(tmp_path, "qwen3_5")
    config = json.loads((folder / "config.json").read_text())
    del config["max_position_embeddings"]
    (folder / "config.json").write_text(json.dumps(config | {"text_config": {"max_position_embeddings": 4096}}))
    assert Rendering(folder).max_tokens == 4096


def test_one_block_of_minimax_holds_several_calls(tmp_path: Path) -> None:
    rendering = Rendering(policies.write(tmp_path, "minimax_m2"))
    invoke = '<invoke name="bash">\n<parameter name="command">{}</parameter>\n</invoke>\n'
    block = f"<minimax:tool_call>\n{invoke.format('ls')}{invoke.format('cat')}</minimax:tool_call>"
    reply, _ = _read(rendering, f"think\n</think>\n\ndone\n{block}")
    assert [use.arguments for use in reply.tool_calls] == [{"command": "ls"}, {"command": "cat"}]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("llama", '{"name": "bash", "parameters": {"command": "ls"}}'),
        (
            "kimi_k2",
            "done<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
            '{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>',
        ),
    ],
)
def test_formats_without_marks_of_single_tokens_are_read_when_they_are_whole(
    tmp_path: Path, kind: str, text: str
) -> None:
    rendering = Rendering(policies.write(tmp_path, kind))
    reply, num_early = _read(rendering, text)
    assert num_early == 0
    assert [(use.name, use.arguments) for use in reply.tool_calls] == [("bash", {"command": "ls"})]
    said, _ = _read(rendering, "read the file")
    assert said.content == "read the file"


@pytest.mark.parametrize("kind", ["glm4_moe", "glm_moe_dsa"])
def test_a_family_whose_replies_end_with_the_next_turns_first_token_is_rendered_whole(
    tmp_path: Path, kind: str
) -> None:
    rendering = Rendering(policies.write(tmp_path, kind))
    with pytest.raises(CannotBridge):
        rendering.continuation([RESULT], "reply")
    call = "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>"
    reply, num_early = _read(rendering, f"{'' if rendering.opens_thinking else '<think>'}read</think>done\n{call}")
    assert (reply.reasoning, reply.content, num_early > 1) == ("read", "done", True)
    assert [use.arguments for use in reply.tool_calls] == [{"command": "ls"}]
    whole = rendering.whole([*OPENING, CALL, RESULT], TOOLS)
    assert rendering.tokenizer.decode(whole).endswith(rendering.tokenizer.decode(rendering.generation_prompt))


def test_an_unknown_family_is_rendered_whole_by_its_own_template(templated: Rendering) -> None:
    from transformers import PreTrainedTokenizerFast

    messages = [*OPENING, CALL, RESULT]
    official = PreTrainedTokenizerFast.from_pretrained(templated.tokenizer.name_or_path)
    ids = official.apply_chat_template(messages, tools=TOOLS, add_generation_prompt=True, return_dict=False)
    assert templated.whole(messages, TOOLS) == ids
    with pytest.raises(CannotBridge):
        templated.continuation([RESULT], "reply")
    reply, _ = _read(templated, "done\n<tool_call>" + json.dumps({"name": "bash", "arguments": {}}) + "</tool_call>")
    assert reply.content == "done"
    assert [use.name for use in reply.tool_calls] == ["bash"]


def test_a_vocabulary_that_lacks_a_mark_of_its_family_is_rendered_by_its_template_or_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPolicyFolder, match="</think>"):
        Rendering(policies.write(tmp_path / "bare", "qwen2", without="</think>"))
    rendering = Rendering(
        policies.write(tmp_path / "own", "qwen2", template=policies.CHAT_TEMPLATE, without="</think>")
    )
    assert rendering.tokenizer.decode(rendering.whole(OPENING, None)).startswith(
        "<|im_start|>system\nYou are an agent."
    )
