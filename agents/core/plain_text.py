"""Text that people type into names and reasons: no characters that a terminal obeys or that hide or reorder text."""

import re

#: C0 without newline and tab, DEL, C1, and characters that hide or reorder text.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_LINE = re.compile(f"{CONTROL.pattern}|[\n\t]")


def problem(text: str, one_line: bool = True) -> str:
    """What is wrong with a name (or, over several lines, a reason); "" when nothing is."""
    found = (_LINE if one_line else CONTROL).search(text)
    if found is None:
        return ""
    return f"holds the control character U+{ord(found.group()):04X} at position {found.start() + 1}; take it out"
