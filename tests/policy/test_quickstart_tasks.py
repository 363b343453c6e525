"""The bundled quickstart task set: what its generator promises, and its verifiers in real shells."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from agents.harness.reference import program
from agents.harness.taskformat import load_task
from agents.harness.taskformat.local import plan
from agents.proxy.rendering import BUNDLED_POLICY, rendering
from agents.tasksets import bundled, quickstart, vocabulary
from agents.tasksets.harbor import write_task
from agents.tasksets.kinds import KINDS, Bash, Summary, Task, make_task
from trainers.policy.demonstrations import Dialogue, demonstrate

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples" / "tasks"


@pytest.fixture(scope="module")
def whole() -> Path:
    """The bundled set."""
    return bundled.provide_quickstart()


@pytest.fixture
def verify(tmp_path: Path):
    """Run a shell script in a task's directory, then its verifier; returns the reward it wrote."""

    def run(task: Task, script: str) -> str:
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        write_task(task, root / "task", "train")
        app, logs = root / "app", root / "logs"
        app.mkdir()
        (logs / "verifier").mkdir(parents=True)
        for name in task.files:
            shutil.copy(root / "task" / "environment" / name, app)
        solution = root / "task" / "solution"
        (solution / "script.sh").write_text(script)
        for command in ("/solution/solve.sh" if script == "solve" else "/solution/script.sh", "/tests/test.sh"):
            _in_sandbox(command, {"/app": app, "/logs": logs, "/tests": root / "task" / "tests", "/solution": solution})
        return (logs / "verifier" / "reward.txt").read_text()

    return run


def _in_sandbox(script: str, mounts: dict[str, Path]) -> None:
    binds = [part for target, source in mounts.items() for part in ("--bind", str(source), target)]
    system = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]
    lib64 = ["--symlink", "usr/lib64", "/lib64"] if Path("/usr/lib64").exists() else []
    command = [
        "bwrap",
        *system,
        *lib64,
        "--dev",
        "/dev",
        *binds,
        "--unshare-all",
        "--chdir",
        "/app",
        "/bin/bash",
        script,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=30)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_solution_earns_the_full_reward(kind: str, verify) -> None:
    assert verify(make_task(kind, Random(1)), "solve") == "1.000000\n"


@pytest.mark.parametrize("kind", KINDS)
def test_doing_nothing_earns_no_reward(kind: str, verify) -> None:
    assert float(verify(make_task(kind, Random(2)), "true")) == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("write1", "read")])
def test_stopping_after_the_first_step_earns_a_part(kind: str, verify) -> None:
    task = make_task(kind, Random(3))
    first = task.steps[0]
    assert isinstance(first, Bash)
    assert 0 < float(verify(task, first.command)) < 1


def test_a_wrong_word_in_the_right_file_earns_half_of_a_reading_task(verify) -> None:
    task = make_task("read", Random(4))
    assert verify(task, f"echo {'x' * 5000} > {task.checks[0].file}") == "0.500000\n"


def test_a_delegated_job_that_the_main_agent_does_itself_is_not_rewarded(verify) -> None:
    task = make_task("delegate", Random(5))
    own, delegated = task.steps
    assert isinstance(own, Bash)
    script = f"{own.command}; {delegated.calls[0].command}"
    logged = json.dumps({"agent": "main", "tool": "bash", "arguments": {"command": script}, "output": ""})
    assert verify(task, f"{script}; mkdir /logs/agent; echo '{logged}' > {program_log()}") == "0.500000\n"


def program_log() -> str:
    return str(program.Settings("", "").logs / "transcript.jsonl")


def _contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o100) for path in files}


def test_the_generator_writes_the_set_of_the_committed_digest(tmp_path: Path) -> None:
    assert quickstart.write_quickstart(tmp_path / "set") == 264
    assert bundled.is_whole(tmp_path / "set")


def test_the_examples_in_the_docs_are_of_the_set_and_one_of_each_kind(whole: Path) -> None:
    shown = sorted(EXAMPLES.iterdir())
    assert [path.name.split("-")[1] for path in shown] == list(KINDS)
    for example in shown:
        assert _contents(example) == _contents(whole / "train" / example.name)


@pytest.mark.parametrize("harm", ["missing", "half", "changed", "whole"])
def test_a_set_is_written_where_it_is_not_whole_and_only_there(tmp_path: Path, whole: Path, harm: str) -> None:
    place = tmp_path / "tasksets" / "quickstart"
    if harm != "missing":
        shutil.copytree(whole, place)
    if harm == "half":
        shutil.rmtree(place / "heldout")
    if harm == "changed":
        (place / "train" / "t001-write1" / "instruction.md").write_text("Do nothing.")
    before = place.stat().st_ino if harm == "whole" else None
    assert bundled.provide_quickstart(place) == place
    assert _contents(place) == _contents(whole)
    assert before in (None, place.stat().st_ino)
    assert [path.name for path in place.parent.iterdir()] == ["quickstart"]


def test_several_that_need_the_set_at_once_all_get_it(tmp_path: Path, whole: Path) -> None:
    place = tmp_path / "quickstart"
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(bundled.provide_quickstart, [place] * 4)) == {place}
    assert _contents(place) == _contents(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["quickstart"]


def test_every_kind_is_equally_frequent_and_eight_in_a_row_hold_all_of_them() -> None:
    train, heldout = quickstart.train_tasks(), quickstart.heldout_tasks()
    assert set(Counter(task.kind for task in heldout).values()) == {8}
    assert len(train) >= 200
    for start in range(0, len(train), len(KINDS)):
        assert {task.kind for task in train[start : start + len(KINDS)]} == set(KINDS)


def test_no_text_of_the_evaluation_occurs_in_training_or_demonstrations() -> None:
    evaluated = quickstart.heldout_texts()
    assert evaluated.isdisjoint(task.text for task in quickstart.train_tasks())
    stream = quickstart.demonstration_tasks(Random(0), dict.fromkeys(KINDS, 1))
    for _, task in zip(range(4000), stream, strict=False):
        for dialogue in demonstrate(task, Random(0), 0.0):
            assert dialogue.messages[1]["content"] not in evaluated


def test_task_settings_name_kind_and_split(whole: Path) -> None:
    for split in ("train", "heldout"):
        for folder in (whole / split).iterdir():
            metadata = tomllib.loads((folder / "task.toml").read_text())["metadata"]
            assert metadata == {"kind": folder.name.split("-")[1], "split": split}


def test_the_local_sandbox_can_honour_every_task(whole: Path) -> None:
    for split in ("train", "heldout"):
        for folder in (whole / split).iterdir():
            task = load_task(folder)
            assert task.warnings == ()
            assert plan(task).workdir == "/app"


def test_every_word_and_file_name_is_one_token() -> None:
    encode = rendering(BUNDLED_POLICY).tokenizer.encode
    assert all(len(encode(f" {word}")) == 1 for word in vocabulary.WORDS + vocabulary.FILE_STEMS)


def test_only_compaction_tasks_outgrow_the_harness_budget_and_only_after_their_second_command() -> None:
    """In a perfect run; the harness compares the tokens of a call, prompt and reply, with its budget."""
    budget = program.Settings("", "").compact_tokens
    stream = quickstart.demonstration_tasks(Random(9), dict.fromkeys(KINDS, 1))
    for _, task in zip(range(800), stream, strict=False):
        first, *_ = (d for d in demonstrate(task, Random(0), 0.0) if d.messages[0]["content"] == program.MAIN_SYSTEM)
        grown = [tokens > budget for tokens in _tokens_of_calls_with_tools(first)]
        assert grown == ([False, True] if _is_compacted(task) else [False] * len(grown)), task.text


def _is_compacted(task: Task) -> bool:
    return any(isinstance(step, Summary) for step in task.steps)


def _tokens_of_calls_with_tools(dialogue: Dialogue) -> list[int]:
    called = [at for at, message in enumerate(dialogue.messages) if message.get("tool_calls")]
    convert = rendering(BUNDLED_POLICY).conversation
    return [len(convert(dialogue.messages[: at + 1], dialogue.tools).ids) for at in called]
