"""Runs in every Python that a verifier starts: a script finds the modules beside it although PYTHONSAFEPATH is set.

What PYTHONSAFEPATH is for stays: `python -c`, `python -m` and standard input load nothing from the working directory.
"""

import os
import sys


def script(words: list[str]) -> str | None:
    """The script among the interpreter's arguments, or None."""
    left = iter(words)
    for word in left:
        if word == "--":
            return next(left, None)
        if not word.startswith("-") or word == "-":
            return None if word == "-" else word
        if word == "--check-hash-based-pycs":
            next(left, None)
            continue
        for place, letter in enumerate(word[1:], start=1):
            if letter in "cmP":  # a command, a module, or a safe path that is asked for
                return None
            if letter in "WX":
                if place == len(word) - 1:
                    next(left, None)
                break
    return None


def add_its_folder() -> None:
    path = script(sys.orig_argv[1:])
    if path and os.path.isfile(path) and not path.endswith((".pyz", ".zip", ".whl")):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))


if sys.flags.safe_path:
    add_its_folder()
