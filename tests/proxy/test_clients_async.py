"""The official asynchronous clients."""

import asyncio
from collections.abc import AsyncIterator

import anthropic
import openai
import pytest

from tests.proxy.backstage import Backstage, sampled, tool_text

GO = [{"role": "user", "content": "go"}]


@pytest.fixture
def base(stage: Backstage) -> str:
    run = stage.run()
    stage.engine(run, "read the file")
    return stage.execution(run)[1]


@pytest.fixture
async def chat(base: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def messages(base: str) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=base, api_key="none", max_retries=0) as client:
        yield client


async def test_chat_completes_and_streams(chat: openai.AsyncOpenAI) -> None:
    whole = await chat.chat.completions.create(model="m", messages=GO)
    assert whole.choices[0].message.content == "read the file"
    stream = await chat.chat.completions.create(model="m", messages=GO, stream=True)
    texts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    assert "".join(texts) == "read the file"


async def test_many_calls_at_once_each_get_their_own_reply(chat: openai.AsyncOpenAI) -> None:
    replies = await asyncio.gather(*(chat.chat.completions.create(model="m", messages=GO) for _ in range(16)))
    assert {reply.choices[0].message.content for reply in replies} == {"read the file"}
    assert len({reply.id for reply in replies}) == 16


async def test_messages_complete_and_stream(messages: anthropic.AsyncAnthropic) -> None:
    whole = await messages.messages.create(model="m", max_tokens=50, messages=GO)
    assert whole.content[0].text == "read the file"
    async with messages.messages.stream(model="m", max_tokens=50, messages=GO) as stream:
        assert [text async for text in stream.text_stream] != ["read the file"]
        assert (await stream.get_final_message()).usage.output_tokens == len(sampled("read the file"))


async def test_an_async_tool_call_arrives_whole(stage: Backstage, messages: anthropic.AsyncAnthropic) -> None:
    stage.engines[0].say(tool_text("bash", command="ls"))
    async with messages.messages.stream(model="m", max_tokens=50, messages=GO) as stream:
        final = await stream.get_final_message()
    assert final.content[0].input == {"command": "ls"}
