"""What a verifier is started with, so that no program of its own loads what an agent has planted (docs/tasks.md)."""

from __future__ import annotations

from collections.abc import Mapping

from agents.harness.sandbox.base import User
from agents.harness.sandbox.skeleton import VERIFIER_HOME, VERIFIER_STARTUP
from agents.harness.taskformat import paths
from agents.harness.taskformat.dockerfile import PATH

#: Beats what a repository's own configuration says: programs that git would start on its behalf.
_GIT = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.attributesFile": "/dev/null",
    "sequence.editor": "false",
    "interactive.diffFilter": "cat",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "credential.helper": "",
    "protocol.ext.allow": "never",
}
#: Runs before the command, for what stands under names that only a repository's own configuration knows.
_START = ("/bin/bash", f"{VERIFIER_STARTUP}/start.sh")
_PYTHON = {"PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"}
#: pytest reads no conftest.py above the tests. What tests of the task's own repository have beside them is read.
_PYTEST = {"PYTEST_ADDOPTS": "--confcutdir=/tests"}


def verifier_environment(
    image: Mapping[str, str], own: Mapping[str, str], user: User, shared: bool, has_tests: bool = True
) -> dict[str, str]:
    """`image`: what the task's image sets; `own`: [verifier] env, which has the last word.

    `shared`: on the agent's files, so that the user's home is the agent's as well. `has_tests`: /tests is there.
    """
    env = {"PATH": PATH, "HOME": user.home, "LANG": "C.UTF-8", "TERM": "dumb", **image}
    env |= _PYTHON | _git() | (_PYTEST if has_tests else {})
    if shared:
        env |= {"HOME": VERIFIER_HOME, "PATH": system_first(env["PATH"])}
    env |= own
    env["PYTHONPATH"] = ":".join(filter(None, (VERIFIER_STARTUP, env.get("PYTHONPATH"))))
    return env


def guarded(command: tuple[str, ...], may_hold_repository: bool) -> tuple[str, ...]:
    return (*_START, *command) if may_hold_repository else command


def _git() -> dict[str, str]:
    env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": str(len(_GIT))}
    for number, (key, value) in enumerate(_GIT.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


def system_first(search: str) -> str:
    """Folders that nobody can write to before those that an agent can; none that depends on where a program runs."""
    folders = [folder for folder in search.split(":") if folder.startswith("/")]
    system = [folder for folder in folders if paths.is_below(paths.inside(folder), paths.SYSTEM)]
    missing = [folder for folder in PATH.split(":") if folder not in system]
    return ":".join([*system, *missing, *(folder for folder in folders if folder not in system)])
