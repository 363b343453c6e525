"""The repository stands for itself: no trace of the machine that it was written on."""

import re

from sources import text_of, tracked_files

#: Written in halves, so that this file does not match itself.
TRACES = {
    "a path of one machine": r"(?<![\w.])/wo" + r"rk/",
    "a folder beside the checkout": r"(?<![\w./-])sha" + r"red/(?:design|probes|harbor)",
    "a local package folder": r"/opt/(?:whe" + r"els|pypi)",
    "the address of a package host": r"(?:pypi\.o" + r"rg|pythonhos" + r"ted\.org|download\.pyto" + r"rch\.org)",
}


def test_no_tracked_file_names_the_machine_it_was_written_on() -> None:
    found = [
        f"{path}: {what}: {match.group(0)}"
        for path in tracked_files()
        for what, pattern in TRACES.items()
        if (match := re.search(pattern, text_of(path)))
    ]
    assert found == []
