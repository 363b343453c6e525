"""Parts of the command that need no server: texts, durations, what is documented, what is imported."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator

import click
import pytest
import yaml

from agents.core import plain_text
from gyreweb.client.app import gyre
from gyreweb.client.codes import MEANINGS, ExitCode
from gyreweb.client.session import Duration
from gyreweb.client.text import CONTROL, clean, duration, spans
from gyreweb.env import REPO_ROOT
from gyreweb.templatetags.gyre import as_gyre

FOLDER = REPO_ROOT / "gyreweb" / "client"
PAGE = (REPO_ROOT / "docs" / "cli.md").read_text()


def test_every_exit_code_is_documented_with_its_meaning_and_no_other() -> None:
    part = PAGE.split("## Exit codes", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", part, re.MULTILINE)
    assert rows == [(str(int(code)), MEANINGS[code]) for code in ExitCode]


def _commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield above + name, command


def test_every_command_is_documented_and_takes_json() -> None:
    found = dict(_commands(gyre))
    documented = re.findall(r"^\| `gyre ([a-z]+(?: (?:set|list|release))?)\b", PAGE, re.MULTILINE)
    assert sorted(documented) == sorted(found)
    without = [name for name, command in found.items() if "as_json" not in {param.name for param in command.params}]
    assert without == []


def test_every_option_that_the_page_names_exists() -> None:
    options = {text for _, command in _commands(gyre) for param in command.params for text in param.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - options == {"--scopes"}  # of create_token


def test_the_workflows_are_yaml_and_their_commands_exist() -> None:
    page = (REPO_ROOT / "docs" / "howto" / "ci.md").read_text()
    workflows = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]
    github, gitlab = (json.dumps(workflow).replace("\\n", "\n") for workflow in workflows)
    commands = dict(_commands(gyre))
    for text in (github, gitlab):
        used = set(re.findall(r"\bgyre ([a-z]+)", text))
        assert {"launch", "wait", "show", "export", "stop"} <= used <= set(commands)
        for name, arguments in re.findall(r"\bgyre ([a-z]+)((?: [^;|&>\\]+)?)", text):
            known = {option for param in commands[name].params for option in param.opts}
            assert set(re.findall(r"(?<=\s)--[a-z-]+", arguments)) <= known, name


@pytest.mark.parametrize(
    ("address", "command"),
    [
        ("/api/v1/runs/7", "gyre show 7"),
        ("/api/v1/executions/12", "gyre tree 12"),
        ("/api/v1/runs/7/report", ""),
        ("/api/v1/runs/7\n", ""),
    ],
)
def test_pages_offer_commands_that_exist(address: str, command: str) -> None:
    assert as_gyre(address) == command
    assert not command or command.split()[1] in dict(_commands(gyre))


def test_no_text_brings_what_a_terminal_obeys() -> None:
    evil = "".join(map(chr, range(0x20))) + "\x7f\x9b2J\u202e\u200b\ufeff"
    assert plain_text.problem(clean(evil)) == ""
    assert not CONTROL.search(clean(evil))
    assert all(CONTROL.match(chr(code)) for code in range(0x3000) if plain_text.CONTROL.match(chr(code)))
    assert (clean("a\r\nb\tc"), clean(None), clean("ä ✓ 中")) == ("a b c", "–", "ä ✓ 中")


def test_durations_and_spans_are_short() -> None:
    assert [duration(s) for s in (None, 7, 65, 7500, 90_000)] == ["–", "7s", "1m 05s", "2h 05m", "1d 01h"]
    assert spans([0, 1, 2, 7, 9, 10]) == "0–2, 7, 9–10"
    assert [Duration().convert(text, None, None) for text in ("90", "90s", "30m", "2h", "1d")] == [
        90,
        90,
        1800,
        7200,
        86400,
    ]
    for text in ("", "h", "-1s", "1w", "1.5h", "²s"):
        with pytest.raises(click.BadParameter):
            Duration().convert(text, None, None)


def test_the_folder_imports_nothing_but_what_its_own_project_declares() -> None:
    allowed = {"click", "httpx", "rich", *sys.stdlib_module_names}
    wrong = []
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.level > 1:
                names = ["beyond the folder"]
            wrong += [f"{path.name}: {name}" for name in names if name.partition(".")[0] not in allowed]
    assert wrong == []
