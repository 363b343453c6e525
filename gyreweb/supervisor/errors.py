"""What ends the supervisor early."""


class CannotStart(Exception):
    """Gyre cannot start or go on here. The text says why and what to do."""


class StopRequested(BaseException):
    """Ctrl-C or TERM: stop everything in order. Not an Exception, so that no handler swallows it.

    The text names the signal.
    """
