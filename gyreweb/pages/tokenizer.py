"""Token texts for the token view. The web process reads `tokenizer.json` alone and never imports torch."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

BUNDLED = Path(settings.BASE_DIR) / "trainers" / "policy" / "quickstart"


def token_texts(policy_path: str, ids: list[int]) -> list[str]:
    """The text of each id; `‹id›` where the policy's tokenizer cannot be read or does not know it."""
    tokenizer = _load(policy_path or str(BUNDLED))
    if tokenizer is None:
        return [f"‹{number}›" for number in ids]
    return [tokenizer.decode([number], skip_special_tokens=False) or f"‹{number}›" for number in ids]


@lru_cache(maxsize=4)
def _load(folder: str) -> Any:
    try:
        from tokenizers import Tokenizer

        path = Path(folder) / "tokenizer.json"
        return Tokenizer.from_file(str(path)) if path.is_file() else None
    except Exception:  # the library raises a bare Exception for a file that it cannot read
        return None
