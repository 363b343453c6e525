"""The Megatron trainer of a cell, and what core and satellites do with it."""
