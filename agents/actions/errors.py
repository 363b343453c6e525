"""What an action raises when it refuses: pages, REST and shell all show the same sentence."""

from agents.core import plain_text


class Refused(Exception):
    """The action does not apply now. The message says why and what to do; nothing was changed."""


class NotFound(Refused):
    """The row does not exist, or is in a project that the caller cannot see."""


def check_reason(reason: str) -> None:
    """A reason is shown to others, in pages and terminals. Raises Refused when it holds control characters."""
    if why := plain_text.problem(reason, one_line=False):
        raise Refused(f"the reason {why}")
