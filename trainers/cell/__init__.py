"""A cell: the agent that follows its desired role, the engine it serves with, the trainer it trains with."""
