"""The proxy before real SGLang engines: recorded ids and log-probabilities are the policy's own, also after a move."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx
import numpy as np
import openai
import pytest
import torch

from agents.models import Call, Execution, Run
from scheduler.models import Cell
from tests.integration import talkative_policy
from tests.integration.cells import LiveCells, wait_for
from tests.integration.payloads import random_payload
from tests.proxy.backstage import Backstage, backstage, delta, full_input
from trainers.models import Checkpoint, WeightVersion

EVALUATION = 1
MESSAGES = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "write the file"}]


@pytest.fixture
def stage(database_url: str) -> Iterator[Backstage]:
    with backstage(database_url) as found:
        yield found


@pytest.fixture
def talkative(tmp_path: Path) -> Path:
    return talkative_policy.write(tmp_path)


def _logprobs(folder: Path, ids: list[int], start: int) -> list[float]:
    """The policy's own log-probabilities of ids[start:]."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    every = torch.log_softmax(logits[:-1], dim=-1)
    return every.gather(1, torch.tensor(ids[1:])[:, None])[start - 1 :, 0].tolist()


def _greedy(stage: Backstage, run: Run) -> tuple[Execution, str]:
    return stage.execution(run, kind="evaluation", evaluation=EVALUATION)


def _say(base: str, stream: bool) -> str:
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        if not stream:
            return client.chat.completions.create(model="m", messages=MESSAGES).choices[0].message.content or ""
        chunks = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def _one(stage: Backstage, execution: Execution) -> Call:
    [call] = stage.calls(execution)
    return call


def test_what_real_engines_sample_is_recorded_exactly_and_survives_a_move(
    live_cells: LiveCells, stage: Backstage, talkative: Path
) -> None:
    """One test, so that two real engines serve all cases."""
    live_cells.policy_folder = talkative
    run = live_cells.start(2, max_new_tokens=400)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)

    execution, base = stage.execution(run)
    with anthropic.Anthropic(base_url=base, api_key="none", max_retries=0) as client:
        asked = {"model": "m", "max_tokens": 24, "messages": [{"role": "user", "content": "go"}]}
        with client.messages.stream(**asked) as stream:
            said = stream.get_final_message()
        again = [{"role": "assistant", "content": said.content}, {"role": "user", "content": "on"}]
        client.messages.create(**asked | {"messages": asked["messages"] + again})
    one, two = stage.calls(execution)
    assert two.parent_number == one.number
    assert not two.false_fork
    assert two.versions == [[0, 0, two.output_tokens]]
    ids = full_input(two) + delta(two).output_ids.tolist()
    own = _logprobs(talkative, ids, two.input_tokens)
    np.testing.assert_allclose(delta(two).output_logprobs, own, atol=2e-5)

    Cell.objects.filter(run=run).update(evaluation=EVALUATION)
    execution, base = _greedy(stage, run)
    undisturbed = _say(base, stream=False)
    whole = _one(stage, execution)
    assert whole.output_tokens > 100

    execution, base = _greedy(stage, run)
    body = {"model": "m", "messages": MESSAGES, "stream": True}
    with httpx.stream("POST", f"{base}/v1/chat/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        for _ in range(20):
            next(lines)
        for cell in Cell.objects.filter(run=run, num_calls__gte=0):
            httpx.post(
                f"{cell.engine_url}/abort_request",
                json={"abort_all": True},
                headers={"Authorization": f"Bearer {cell.engine_key}"},
            )
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    moved = _one(stage, execution)
    assert (moved.state, moved.sampling["num_moves"]) == ("complete", 1)
    assert delta(moved).output_ids.tolist() == delta(whole).output_ids.tolist()
    np.testing.assert_allclose(delta(moved).output_logprobs, delta(whole).output_logprobs, atol=2e-5)
    assert undisturbed.endswith("".join(e["choices"][0]["delta"].get("content") or "" for e in events).rstrip())

    execution, base = _greedy(stage, run)
    assert _say(base, stream=True) == undisturbed


def test_running_calls_go_on_over_new_weights_and_every_log_probability_is_that_of_its_version(
    live_cells: LiveCells, stage: Backstage, talkative: Path
) -> None:
    """The core trains a step while the satellite serves; its engine takes version 1 in the middle of four replies."""
    live_cells.policy_folder = talkative
    run = live_cells.start(2, max_new_tokens=700)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)
    live_cells.switch(run, "training", [0])
    batch = live_cells.open_batch(run, [random_payload(5)])
    executions = [stage.execution(run) for _ in range(4)]
    body = {"model": "m", "messages": MESSAGES, "stream": True}
    asking = [
        threading.Thread(
            target=httpx.post, args=(f"{base}/v1/chat/completions",), kwargs={"json": body, "timeout": 120}
        )
        for _, base in executions
    ]
    for caller in asking:
        caller.start()
    satellite = live_cells.cell(run, 1)
    wait_for(lambda: live_cells.num_calls(satellite) == len(executions), "all calls run")
    live_cells.seal(batch, num_votes=3)
    live_cells.wait_version(run, 1)
    for caller in asking:
        caller.join()

    folders = {0: talkative, 1: Path(Checkpoint.objects.get(run=run, version=1).path) / "hf"}
    num_spanning = 0
    for execution, _ in executions:
        call = _one(stage, execution)
        assert (call.state, call.false_fork) == ("complete", False)
        ids = full_input(call) + delta(call).output_ids.tolist()
        own = {version: _logprobs(folders[version], ids, call.input_tokens) for version, _, _ in call.versions}
        wanted = [own[version][n] for version, start, end in call.versions for n in range(start, end)]
        np.testing.assert_allclose(delta(call).output_logprobs, wanted, atol=1e-4)
        num_spanning += [version for version, _, _ in call.versions] == [0, 1]
    assert num_spanning > 0
    satellite.refresh_from_db()
    assert (satellite.role, satellite.phase, satellite.weight_version) == ("rollout", "", 1)
    assert satellite.weight_hash == WeightVersion.objects.get(run=run, version=1).sha256
