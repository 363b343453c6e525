"""Where a renderer cannot go on by appending, calls are rendered whole and share what they can.

See docs/algorithms.md §2.1.
"""

from pathlib import Path

import openai
import pytest

from agents.proxy.rendering import rendering
from tests.proxy import policies
from tests.proxy.backstage import Backstage, full_input, sampled

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
#: A template that rewrites what an assistant said.
REWRITING = policies.CHAT_TEMPLATE.replace("m.content }}", "(m.content if m.role != 'assistant' else '…') }}")


def _converse(base: str, num_turns: int) -> None:
    """Each turn sees the replies before it."""
    messages: list = [{"role": "user", "content": "go"}]
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        for _ in range(num_turns):
            said = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
            messages += [said.to_dict(), {"role": "user", "content": "on"}]


@pytest.mark.parametrize("is_rewriting", [False, True])
def test_a_conversation_is_recorded_exactly_and_breaks_are_told(
    stage: Backstage, tmp_path: Path, is_rewriting: bool
) -> None:
    folder = policies.write(tmp_path, "unheard_of", template=REWRITING if is_rewriting else policies.CHAT_TEMPLATE)
    run = stage.run(policy_path=str(folder))
    engine = stage.engine(run, "read", "done", "file")
    execution, base = stage.execution(run)
    _converse(base, 3)
    calls = stage.calls(execution)
    assert [full_input(call) for call in calls] == [request["input_ids"] for request in engine.requests]
    assert [call.parent_number for call in calls] == [None, 0, 1]
    assert calls[1].prefix_tokens > 0
    assert [call.false_fork for call in calls[1:]] == [is_rewriting, is_rewriting]
    if is_rewriting:
        assert [call.branch_reason for call in calls[1:]] == ["re-rendered", "re-rendered"]
        assert calls[2].prefix_tokens < calls[1].input_tokens + calls[1].output_tokens
    else:
        assert calls[2].prefix_tokens == calls[1].input_tokens + len(sampled("done"))


def test_a_restarted_proxy_goes_on_with_it(stage: Backstage, tmp_path: Path) -> None:
    folder = policies.write(tmp_path, "unheard_of", template=policies.CHAT_TEMPLATE)
    run = stage.run(policy_path=str(folder))
    stage.engine(run, "read", "done", "file")
    execution, base = stage.execution(run)
    _converse(base, 2)
    stage.stop_proxy()
    stage.start_proxy()
    said = [("user", "go"), ("assistant", "read"), ("user", "on"), ("assistant", "done"), ("user", "on")]
    messages = [{"role": role, "content": content} for role, content in said]
    with openai.OpenAI(base_url=f"{stage.url}/x/{base.rsplit('/', 1)[1]}/v1", api_key="none") as client:
        client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    calls = stage.calls(execution)
    assert [call.parent_number for call in calls] == [None, 0, 1]
    assert full_input(calls[2]) == rendering(folder).whole(messages, TOOLS)
