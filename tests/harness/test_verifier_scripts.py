"""Verifiers that the kernel cannot start are refused at launch, by file, line and reason; honest ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.harness.taskformat import BadTask, load_task
from agents.harness.taskformat.local import plan
from tests.harness.rows import write_task


def planned(folder: Path, script: bytes, dockerfile: str = "") -> None:
    task = write_task(folder) / "one"
    (task / "tests" / "test.sh").write_bytes(script)
    (task / "environment" / "Dockerfile").write_text(f"FROM debian\n{dockerfile}")
    (task / "environment" / "tool").write_text("#!/bin/sh\n")
    plan(load_task(task))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (b"", "needs a shebang"),
        (b"echo 1\n", "needs a shebang"),
        (b"\n#!/bin/bash\n", "needs a shebang"),
        (b"\xef\xbb\xbf#!/bin/bash\n", "starts with a byte-order mark"),
        ("#!/bin/bash\n".encode("utf-16"), "needs a shebang"),
        (b"#!/bin/bash\r\necho 1\r\n", "has Windows line ends"),
        (b"#!/bin/bash -e\r\n", "has Windows line ends"),
        (b"#!\n", "names no interpreter"),
        (b"#! \t\n", "names no interpreter"),
        (b"#!bash\n", "'bash' is no absolute path"),
        (b"#!/bin/no-such-shell\n", "'/bin/no-such-shell' is not in the sandbox"),
        (b"#!/usr/bin\n", "'/usr/bin' is not in the sandbox"),
        (b"#!/usr/share/dict/../../../etc/hostname\n", "is not in the sandbox"),
        (b"#!/app/tool\n", "'/app/tool' is not in the sandbox"),
        (b"#!/usr/bin/env no-such-program\n", "'no-such-program' is not in the sandbox"),
        (b"#!/usr/bin/env bash -e\n", "with arguments it needs env -S"),
        (b"#!/usr/bin/env\n", "env is given no program"),
        (b"#!/usr/bin/env -S no-such-program -e\n", "'no-such-program' is not in the sandbox"),
        (b"#!/bin/" + b"x" * 300 + b"\n", "its first line is longer than 255 bytes"),
    ],
)
def test_a_verifier_that_cannot_start_is_refused(script: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(BadTask) as refused:
        planned(tmp_path, script)
    assert str(refused.value).startswith("one/tests/test.sh:1: ")
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "script",
    [b"#!/bin/bash", b"#! /bin/sh -eu\nx", b"#!/usr/bin/env bash\n", b"#!/usr/bin/env -S bash -e\n",
     b"#!/usr/bin/env -S A=1 bash\n", b"#!/app/tool\n", b"#!/usr/bin/env tool\n"],
)  # fmt: skip
def test_a_verifier_that_can_start_is_taken(script: bytes, tmp_path: Path) -> None:
    planned(tmp_path, script, "COPY --chmod=755 tool /app/tool\nENV PATH=/app:$PATH\n")


def test_a_verifier_must_be_a_file_that_reaches_the_sandbox(tmp_path: Path) -> None:
    def refusal(name: str, change: str) -> str:
        tests = write_task(tmp_path / name) / "one" / "tests"
        script = tests / "test.sh"
        if change == "ignored":
            (tests / ".harborignore").write_text("*.sh\n")
        else:
            script.unlink()
        if change == "folder":
            script.mkdir()
        if change == "link":
            script.symlink_to("../instruction.md")
            (tests.parent / "instruction.md").write_text("#!/bin/bash\n")
        with pytest.raises(BadTask) as refused:
            load_task(tests.parent)
        return str(refused.value)

    assert refusal("a", "folder") == "one/tests/test.sh: is a directory, not a script"
    assert refusal("b", "missing") == "one/tests/test.sh: is missing"
    for change in ("ignored", "link"):
        assert "one/tests/test.sh: does not reach the sandbox" in refusal(change, change)


@pytest.mark.parametrize(
    ("copy", "reason"),
    [
        ("COPY test.sh /tests/", "copies /tests/test.sh without an executable bit"),
        ("COPY test.sh /other/", "copies no /tests/test.sh"),
        ("COPY --chmod=755 test.sh /tests/", ""),
    ],
)
def test_an_image_that_brings_the_tests_must_bring_one_that_starts(copy: str, reason: str, tmp_path: Path) -> None:
    task = write_task(tmp_path) / "one"
    (task / "task.toml").write_text('[verifier]\nenvironment_mode = "separate"\n')
    (task / "tests" / "Dockerfile").write_text(f"FROM debian\nWORKDIR /tests\n{copy}\n")
    if not reason:
        plan(load_task(task))
        return
    with pytest.raises(BadTask, match=reason):
        plan(load_task(task))
