"""Runs in every Python that a verifier starts: a script finds the modules beside it although PYTHONSAFEPATH is set.

What PYTHONSAFEPATH is for stays: `python -c`, `python -m` and standard input load nothing from the working directory.
"""

import os
import sys


def script(words):
    """The script among the interpreter's arguments, or None."""
    words = iter(words)
    for word in words:
        if word == "--":
            return next(words, None)
        if not word.startswith("-") or word == "-":
            return None if word == "-" else word
        if word == "--check-hash-based-pycs":
            next(words, None)
            continue
        for place, letter in enumerate(word[1:], start=1):
            if letter in "cmP":  # a command, a module, or an explicit wish for a safe path
                return None
            if letter in "WX":
                if place == len(word) - 1:
                    next(words, None)
                break
    return None


def add_its_folder():
    path = script(sys.orig_argv[1:])
    if path and os.path.isfile(path) and not path.endswith((".pyz", ".zip", ".whl")):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))


if sys.flags.safe_path:
    add_its_folder()
