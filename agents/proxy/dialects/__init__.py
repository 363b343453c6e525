"""Wire dialects by request path."""

from agents.proxy.dialects.anthropic_messages import AnthropicMessages
from agents.proxy.dialects.base import Dialect
from agents.proxy.dialects.openai_chat import OpenAIChat
from agents.proxy.dialects.openai_responses import OpenAIResponses

OPENAI_CHAT = OpenAIChat()
OPENAI_RESPONSES = OpenAIResponses()
ANTHROPIC_MESSAGES = AnthropicMessages()

BY_PATH: dict[str, Dialect] = {
    "/v1/chat/completions": OPENAI_CHAT,
    "/chat/completions": OPENAI_CHAT,
    "/v1/responses": OPENAI_RESPONSES,
    "/responses": OPENAI_RESPONSES,
    "/v1/messages": ANTHROPIC_MESSAGES,
    "/v1/messages/count_tokens": ANTHROPIC_MESSAGES,
    "/v1/responses/input_tokens": OPENAI_RESPONSES,
}
BY_NAME: dict[str, Dialect] = {dialect.name: dialect for dialect in BY_PATH.values()}
#: Paths that ask for the length of a request.
COUNTS = frozenset({"/v1/messages/count_tokens", "/v1/responses/input_tokens"})


def model_asked(path: str) -> str | None:
    """The name that a path of the models listing asks for, "" for the whole list; None for any other path."""
    listing, _, name = path.removeprefix("/v1").lstrip("/").partition("/")
    return name if listing == "models" else None


def route_of(path: str) -> tuple[str, str]:
    """The execution's key, empty if there is none, and the API's path, from `/x/KEY/v1/…` or `/v1/…`."""
    key, _, rest = path.removeprefix("/x/").partition("/")
    return (key, f"/{rest}") if path.startswith("/x/") else ("", path)


def of_path(path: str) -> Dialect:
    """The dialect that a path speaks; for an unknown one, the one in which to say so."""
    if "/responses" in path:
        return OPENAI_RESPONSES
    return BY_PATH.get(path) or (ANTHROPIC_MESSAGES if "/messages" in path else OPENAI_CHAT)
