"""Where a checkpoint keeps what: read by the cells that write it, and by export, which loads no torch."""

from pathlib import PurePosixPath

#: A Hugging Face folder of the weights.
HF_FOLDER = PurePosixPath("hf")
WEIGHTS = HF_FOLDER / "model.safetensors"
