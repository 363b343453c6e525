"""A policy folder's tokenizer without transformers: what `renderers` needs, and token ids back to text as they come."""

from __future__ import annotations

import codecs
import json
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from agents.proxy import budget
from agents.proxy.families import BadPolicyFolder, chat_template, settings
from agents.proxy.template import ChatTemplate


class Tally:
    """A count that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, number: int) -> None:
        with self._lock:
            self.count += number


#: Tokens that this process has made out of text.
TOKENISED = Tally()


class PolicyTokenizer:
    """Satisfies `renderers.Tokenizer`. It offers no character offsets, so renderers take their cheaper path."""

    def __init__(self, folder: Path) -> None:
        self.name_or_path = str(folder)
        try:
            self.backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library has no other kind
            raise BadPolicyFolder(f"{folder} is no policy folder: tokenizer.json cannot be read: {error}") from error
        config = settings(folder, "tokenizer_config.json")
        self.unk_token_id = self._special(config.get("unk_token"))
        self.eos_token_id = self._special(config.get("eos_token"))
        self._template: ChatTemplate | None = None
        self._special_tokens = {
            name: content
            for name, token in config.items()
            if name.endswith("_token") and isinstance(content := _content(token), str)
        }
        self._byte_level = _byte_level(self.backend)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Ids of a text, always made of the whole of it. Raises `budget.TooLong` inside a budget."""
        budget.check(text, self._count)
        # A batch of one: unlike `encode`, it releases the interpreter lock while it works.
        [encoding] = self.backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        ids: list[int] = encoding.ids
        TOKENISED.add(len(ids))
        budget.spend(len(ids))
        return ids

    def _count(self, piece: str) -> int:
        """Number of tokens of a piece of a text."""
        [encoding] = self.backend.encode_batch_fast([piece], add_special_tokens=False)
        return len(encoding)

    def decode(self, token_ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        return self.backend.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def convert_tokens_to_ids(self, tokens: str | list[str]) -> Any:
        if isinstance(tokens, str):
            found = self.backend.token_to_id(tokens)
            return self.unk_token_id if found is None else found
        return [self.convert_tokens_to_ids(token) for token in tokens]

    def apply_chat_template(
        self, messages: list[dict[str, Any]], *, tools: list[Any] | None = None, add_generation_prompt: bool = False,
        tokenize: bool = True, return_dict: bool = False, **options: Any,
    ) -> list[int]:  # fmt: skip
        """Ids by the folder's own chat template, for families without a renderer of their own."""
        if self._template is None:
            self._template = ChatTemplate(chat_template(Path(self.name_or_path)), self._special_tokens)
        text = self._template.render(messages, tools, add_generation_prompt=add_generation_prompt, **options)
        return self.encode(text)

    def incremental(self) -> IncrementalDecoder:
        """A fresh decoder for one reply."""
        return ByteLevelDecoder(self._byte_level) if self._byte_level else StreamDecoder(self.backend)

    def _special(self, token: str | dict[str, Any] | None) -> int | None:
        content = _content(token)
        return None if content is None else self.backend.token_to_id(content)


class IncrementalDecoder(Protocol):
    """Turns ids into text piece by piece; never gives out half a character."""

    def feed(self, ids: Sequence[int]) -> str: ...

    def flush(self) -> str:
        """What is left at the end; bytes that never became a character come out as U+FFFD."""
        ...


class ByteLevelDecoder:
    """For byte-level vocabularies: a table lookup per token. Ids outside the vocabulary have no text."""

    def __init__(self, table: list[bytes]) -> None:
        self._table = table
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: Sequence[int]) -> str:
        table, size = self._table, len(self._table)
        return self._utf8.decode(b"".join([table[i] for i in ids if 0 <= i < size]))

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)


class StreamDecoder:
    """For every other vocabulary: the tokenizer library's own stream."""

    def __init__(self, backend: Tokenizer) -> None:
        self._backend = backend
        self._stream = DecodeStream(skip_special_tokens=False)
        self._pending: list[int] = []

    def feed(self, ids: Sequence[int]) -> str:
        pieces: list[str] = []
        for i in ids:
            self._pending.append(i)
            piece = self._stream.step(self._backend, i)
            if piece is not None:
                pieces.append(piece)
                self._pending.clear()
        return "".join(pieces)

    def flush(self) -> str:
        rest = self._backend.decode(self._pending, skip_special_tokens=False)
        self._pending.clear()
        return rest


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def _byte_level(backend: Tokenizer) -> list[bytes] | None:
    """Bytes of every id, when the vocabulary is a byte-level one."""
    decoder = json.loads(backend.to_str())["decoder"] or {}
    kinds = [part["type"] for part in decoder.get("decoders", [decoder]) if part]
    if kinds != ["ByteLevel"]:
        return None
    letters = _byte_letters()
    added = backend.get_added_tokens_decoder()
    table = [b""] * (max(backend.get_vocab(with_added_tokens=True).values()) + 1)
    for token, i in backend.get_vocab(with_added_tokens=True).items():
        if i in added or any(letter not in letters for letter in token):
            table[i] = token.encode()
        else:
            table[i] = bytes(letters[letter] for letter in token)
    return table


def _byte_letters() -> dict[str, int]:
    """The letter that stands for each byte in byte-level vocabularies (GPT-2's table), inverted."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    return letters | {chr(256 + n): byte for n, byte in enumerate(others)}
