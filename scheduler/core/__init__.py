"""Pure, typed rules: no Django, no I/O; clock and randomness come in as arguments."""
