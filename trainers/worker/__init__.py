"""The processes on the GPUs (or CPUs): cell agent, engine, Megatron trainer, transfer."""
