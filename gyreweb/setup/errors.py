"""What stops the set-up."""


class SetupFailed(Exception):
    """The set-up cannot go on. The text says what to do about it."""
