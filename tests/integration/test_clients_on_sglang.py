"""The cases of the official clients once more, before a real SGLang engine."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.models import Execution, Run
from tests.integration import talkative_policy
from tests.integration.cells import LiveCells
from tests.proxy.backstage import Backstage, backstage, delta, full_input
from tests.proxy.dialects.cases import (
    CASES,
    Scene,
    a_client_that_leaves_does_not_stop_the_recording,
    a_stream_comes_in_pieces_and_ends_recorded,
)
from tests.proxy.dialects.speakers import SPEAKERS, Speaker

REPLY_TOKENS = 48
#: What the asynchronous clients do as well.
STREAMING = (a_stream_comes_in_pieces_and_ends_recorded, a_client_that_leaves_does_not_stop_the_recording)


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found


def test_the_official_clients_get_their_contract_from_a_real_engine(
    live_cells: LiveCells, stage: Backstage, tmp_path: Path, subtests
) -> None:
    """One test, so that one engine serves all cases."""
    live_cells.policy_folder = talkative_policy.write(tmp_path)
    run = live_cells.start(1, max_new_tokens=400)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)
    begun: list[Execution] = []

    def begin() -> tuple[Execution, str]:
        execution, base = stage.execution(run)
        begun.append(execution)
        return execution, base

    scene = Scene(
        begin, stage.calls, functools.partial(stage.execution, stage.run(policy_context_tokens=16)), REPLY_TOKENS
    )
    for speaker, case in itertools.product(SPEAKERS, [*CASES, _a_tool_result_is_understood]):
        if speaker.is_async and case not in STREAMING:
            continue
        with subtests.test(f"{case.__name__}[{speaker!r}]"):
            case(scene, speaker)
    calls = [call for execution in begun for call in stage.calls(execution)]
    assert {call.state for call in calls} == {"complete", "truncated"}
    for call in calls:
        assert len(delta(call).output_logprobs) == call.output_tokens
        assert call.versions == [[0, 0, call.output_tokens]]


def _a_tool_result_is_understood(scene: Scene, speaker: Speaker) -> None:
    """No real policy with random weights calls a tool: the client wrote the call itself."""
    execution, base = scene.begin()
    said = speaker.ask(base, [speaker.user("go")], max_tokens=8)
    said.uses = [("call_1", "bash", {"command": "ls"})]
    history = [speaker.user("go"), *speaker.use(said), *speaker.results(said, ["apple"])]
    speaker.ask(base, history, max_tokens=8)
    call = scene.calls(execution)[-1]
    assert [message["role"] for message in call.messages][-2:] == ["assistant", "tool"]
    assert len(full_input(call)) == call.input_tokens
