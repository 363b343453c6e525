"""Hugging Face folders of the tiny policy."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM

BUNDLED = Path(__file__).parent / "quickstart"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
NOTICE_FILES = ("LICENSE", "NOTICE.md")


def write_folder(model: Qwen3ForCausalLM, out: Path, tokenizer_folder: Path = BUNDLED) -> None:
    """Write weights, configuration, tokenizer and its licence to `out`. The weights are replaced in one rename."""
    out.mkdir(parents=True, exist_ok=True)
    copy_tokenizer(tokenizer_folder, out)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        model.save_pretrained(scratch)
        for file in sorted(Path(scratch).iterdir()):
            file.chmod(0o644)
            file.replace(out / file.name)


def copy_tokenizer(source: Path, out: Path) -> None:
    """Copy the tokenizer, its chat template and, where they stand, licence and notice."""
    if source.resolve() == out.resolve():
        return
    for name in (*TOKENIZER_FILES, *NOTICE_FILES):
        if name in TOKENIZER_FILES or (source / name).exists():
            shutil.copyfile(source / name, out / name)
