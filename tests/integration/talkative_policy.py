"""Random weights under the bundled tokenizer: a policy that hardly ever ends its turn."""

import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from agents.proxy.rendering import BUNDLED_POLICY
from tests.integration import tiny_policy


def write(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(BUNDLED_POLICY / name, folder / name)
    tied = json.loads((folder / "config.json").read_text())["tie_word_embeddings"]
    wanted = {name: tensor.shape for name, tensor in load_file(BUNDLED_POLICY / "model.safetensors").items()}
    made = {name: tensor for name, tensor in tiny_policy.weights(tied=tied).items() if name in wanted}
    assert {name: tensor.shape for name, tensor in made.items()} == wanted
    save_file(made, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
