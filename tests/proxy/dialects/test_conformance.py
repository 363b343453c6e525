"""The official clients, synchronous and asynchronous, before the scripted engine."""

import functools
import json

import anthropic
import httpx
import pytest

from agents.proxy import answer, dialects
from tests.proxy.backstage import Backstage, full_input, policy, sampled, tool_text
from tests.proxy.dialects.cases import CASES, Scene
from tests.proxy.dialects.speakers import PARAMETERS, SPEAKERS, SYSTEM, Said, Speaker

LONG = "read the file and write the word"


@pytest.fixture(params=SPEAKERS, ids=repr)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    return request.param


@pytest.fixture(params=[speaker for speaker in SPEAKERS if not speaker.is_async], ids=repr)
def dialect(request: pytest.FixtureRequest) -> Speaker:
    """One client of each dialect, for what does not depend on how it waits."""
    return request.param


def test_every_dialect_keeps_its_clients_contract(stage: Backstage, speaker: Speaker, subtests) -> None:
    run, cramped = stage.run(), stage.run(policy_context_tokens=16)
    stage.engine(run, LONG).scripted.token_interval_s = 0.01
    scene = Scene(
        begin=functools.partial(stage.execution, run),
        calls=stage.calls,
        begin_cramped=functools.partial(stage.execution, cramped),
        reply_tokens=len(sampled(LONG)),
    )
    for case in CASES:
        with subtests.test(case.__name__):
            case(scene, speaker)


def test_parallel_tools_come_whole_and_their_results_extend_the_record(stage: Backstage, speaker: Speaker) -> None:
    run = stage.run()
    said = "read\n" + tool_text("bash", command="ls") + "\n" + tool_text("bash", command="cat a.txt")
    engine = stage.engine(run, said, said, "done")
    for ask in (speaker.ask, speaker.stream):
        engine.say(said, "done")
        execution, base = stage.execution(run)
        history = [speaker.user("go")]
        first = ask(base, history)
        assert [(name, arguments) for _, name, arguments in first.uses] == [
            ("bash", {"command": "ls"}),
            ("bash", {"command": "cat a.txt"}),
        ]
        assert (first.text, first.stop) == ("read", "tools")
        second = ask(base, [*history, *first.echo, *speaker.results(first, ["a.txt", "apple"])])
        assert (second.text, second.stop) == ("done", "stop")
        one, two = stage.calls(execution)
        assert two.prefix_tokens == one.input_tokens + one.output_tokens
        assert full_input(two) == engine.requests[-1]["input_ids"]
        assert [m["content"] for m in two.messages] == ["a.txt", "apple"]


def test_the_same_conversation_is_the_same_prompt_in_every_dialect(stage: Backstage, dialect: Speaker) -> None:
    run = stage.run()
    engine = stage.engine(run, "done")
    _, base = stage.execution(run)
    dialect.ask(base, [dialect.user("go")])
    function = {"name": "bash", "description": "Run a command.", "parameters": PARAMETERS}
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "go"}]
    assert engine.requests[0]["input_ids"] == policy().prompt(messages, [{"type": "function", "function": function}])


def test_a_malformed_tool_call_comes_as_text_and_is_counted(stage: Backstage, dialect: Speaker) -> None:
    run = stage.run()
    stage.engine(run, '<tool_call>\n{"name": "bash", "arguments": \n</tool_call>')
    execution, base = stage.execution(run)
    for ask in (dialect.ask, dialect.stream):
        said = ask(base, [dialect.user("go")])
        assert (said.uses, said.stop) == ([], "stop")
        assert said.text.startswith("<tool_call>")
        assert said.text.endswith("</tool_call>")
    assert [call.malformed for call in stage.calls(execution)] == [True, True]


def _kinds(said: Said) -> list[str]:
    """What an echo consists of, in its order."""
    [*blocks] = said.echo if "role" not in said.echo[0] or "type" in said.echo[0] else said.echo[0]["content"] or []
    return [block["type"] if isinstance(block, dict) else "text" for block in blocks]


def test_text_after_a_tool_call_keeps_its_place_and_is_recognised(stage: Backstage, dialect: Speaker) -> None:
    run = stage.run()
    said = "read\n" + tool_text("bash", command="ls") + "\nthe file"
    stage.engine(run, said, said, "done")
    execution, base = stage.execution(run)
    history = [dialect.user("go")]
    first = dialect.stream(base, history)
    assert first.text.split() == ["read", "the", "file"]
    whole = dialect.ask(base, history)
    assert _kinds(whole) == _kinds(first)
    dialect.ask(base, [*history, *first.echo, *dialect.results(first, ["apple"])])
    one, _, two = stage.calls(execution)
    assert two.prefix_tokens == one.input_tokens + one.output_tokens


def test_thoughts_are_told_apart_and_may_come_back(stage: Backstage, dialect: Speaker) -> None:
    run = stage.run()
    stage.engine(run, "<think>\nread the file\n</think>\n\ndone", "read")
    execution, base = stage.execution(run)
    if policy().think_start_id < 0:
        pytest.skip("the bundled vocabulary has no think tokens")
    first = dialect.ask(base, [dialect.user("go")])
    assert (first.reasoning, first.text) == ("read the file", "done")
    dialect.ask(base, [dialect.user("go"), *first.echo, dialect.user("on")])
    one, two = stage.calls(execution)
    assert two.prefix_tokens == one.input_tokens + one.output_tokens


def test_a_tool_call_that_the_client_wrote_itself_is_context(stage: Backstage, dialect: Speaker) -> None:
    run = stage.run()
    said = tool_text("bash", command="write")
    stage.engine(run, said, "done")
    execution, base = stage.execution(run)
    history = [dialect.user("go")]
    first = dialect.ask(base, history)
    written = json.loads(json.dumps(first.echo).replace(first.uses[0][0], "call_of_another"))
    first.uses[0] = ("call_of_another", *first.uses[0][1:])
    edited = json.loads(json.dumps(written).replace("write", "cat"))
    dialect.ask(base, [*history, *edited, *dialect.results(first, ["apple"])])
    one, two = stage.calls(execution)
    assert two.parent_number == one.number
    assert two.prefix_tokens <= one.input_tokens
    assert "cat" in policy().tokenizer.decode(full_input(two))


def test_the_clients_own_tool_runner_plays_a_whole_round(stage: Backstage) -> None:
    run = stage.run()
    stage.engine(run, tool_text("bash", command="ls") + "\n" + tool_text("bash", command="cat a.txt"), "done")
    execution, base = stage.execution(run)
    ran: list[str] = []

    @anthropic.beta_tool
    def bash(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "apple"

    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="m", max_tokens=100, tools=[bash], messages=[{"role": "user", "content": "go"}]
        )
        final = runner.until_done()
    assert ran == ["ls", "cat a.txt"]
    assert [block.text for block in final.content] == ["done"]
    one, two = stage.calls(execution)
    assert two.prefix_tokens == one.input_tokens + one.output_tokens


def test_a_stream_that_waits_is_kept_alive_and_clients_pass_over_it(
    stage: Backstage, dialect: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "KEEP_ALIVE_S", 0.02)
    run = stage.run()
    engine = stage.engine(run, "read the file")
    engine.scripted.token_interval_s = 0.1
    execution, base = stage.execution(run)
    said = dialect.stream(base, [dialect.user("go")], tools=False)
    assert said.text == "read the file"
    route = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}[dialect.name]
    body = {"stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "go"}], "input": "go"}
    raw = httpx.post(f"{base}{route}", json=body, timeout=60).content
    assert raw.count(dialects.BY_PATH[route].keep_alive) > 1
    assert [call.state for call in stage.calls(execution)] == ["complete", "complete"]
