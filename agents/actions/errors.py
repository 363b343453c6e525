"""What an action raises when it refuses: pages, REST and shell all show the same sentence."""


class Refused(Exception):
    """The action does not apply now. The message says why and what to do; nothing was changed."""


class NotFound(Refused):
    """The row does not exist, or is in a project that the caller cannot see."""
