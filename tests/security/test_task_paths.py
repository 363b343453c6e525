"""No path, name or link of a task makes Gyre write outside the file tree of its sandbox, at launch or at use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.harness.beneath import Beneath
from agents.harness.sandbox.base import SandboxError, User
from agents.harness.sandbox.skeleton import etc
from agents.harness.sandbox.workspace import Workspace
from agents.harness.taskformat import BadTask, load_task
from agents.harness.taskformat.dockerfile import Copy, Image
from agents.harness.taskformat.local import plan
from tests.harness.rows import write_task


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An attempt's directory some levels down, so that what climbs out of it lands where this test looks."""
    found = tmp_path / "home" / "executions" / "attempt"
    found.parent.mkdir(parents=True)
    (tmp_path / "home" / "secret.txt").write_text("untouched")
    return found


def everything_but(top: Path, root: Path) -> dict[str, str]:
    found = {}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if Path(folder, name) != root]
        for name in files + folders:
            path = Path(folder, name)
            found[str(path)] = path.read_text() if path.is_file() else ""
    return found


def build(task: Path, place: Path, tmp_path: Path, image: Image | None = None, user: User | None = None) -> Path:
    """Make the file tree of a task, and check that nothing else has changed. Returns the tree."""
    workspace = Workspace(tmp_path / "home", place)
    image = image or plan(load_task(task))
    workspace.begin()
    for name in ("logs", "tests", "logs/agent", "logs/verifier", "logs/artifacts"):
        (place / name).mkdir()
    before = everything_but(tmp_path, workspace.root)
    workspace.create(image, task / "environment", user or User(), "do it")
    assert everything_but(tmp_path, workspace.root) == before
    return workspace.root


def with_dockerfile(folder: Path, text: str) -> Path:
    task = write_task(folder) / "one"
    (task / "environment" / "Dockerfile").write_text("FROM debian\n" + text)
    (task / "environment" / "a.txt").write_text("planted")
    return task


def test_a_working_directory_that_climbs_stays_inside(place: Path, tmp_path: Path) -> None:
    task = with_dockerfile(tmp_path, "WORKDIR /tmp/../../../x\nCOPY a.txt .\nCOPY a.txt ../../../home/y/\n")
    root = build(task, place, tmp_path)
    assert (root / "x" / "a.txt").read_text() == (root / "home" / "y" / "a.txt").read_text() == "planted"


@pytest.mark.parametrize("path", ["/tmp/../../../x", "/..", "//../x"])
def test_what_climbs_stays_inside_even_if_no_launch_has_checked_it(path: str, place: Path, tmp_path: Path) -> None:
    task = with_dockerfile(tmp_path, "")
    copy = Copy(("a.txt",), f"{path}/planted.txt", False, None, 2)
    image = Image(workdir=path, copies=[copy], user="../../x")
    root = build(task, place, tmp_path, image, User("../../../x"))
    assert [file.read_text() for file in root.rglob("planted.txt")] == ["planted"]


def test_a_relative_link_copied_to_another_depth_leads_nowhere_else(place: Path, tmp_path: Path) -> None:
    task = with_dockerfile(
        tmp_path, "COPY deep/er/still /app\nCOPY a.txt /app/up/planted.txt\nCOPY a.txt /app/up/home/new/planted.txt\n"
    )
    deep = task / "environment" / "deep" / "er" / "still"
    deep.mkdir(parents=True)
    (deep / "up").symlink_to("../../..")
    root = build(task, place, tmp_path)
    assert os.readlink(root / "app" / "up") == "../../.."
    assert (root / "planted.txt").read_text() == (root / "home" / "new" / "planted.txt").read_text() == "planted"


def test_files_of_gyre_replace_links_of_a_task_instead_of_following_them(place: Path, tmp_path: Path) -> None:
    task = with_dockerfile(tmp_path, "COPY run /run/gyre/\n")
    folder = task / "environment" / "run" / "a" / "b" / "c"
    folder.mkdir(parents=True)
    (folder.parents[2] / "instruction.md").symlink_to("a/b/c/../../../../../../one/instruction.md")
    root = build(task, place, tmp_path)
    assert not (root / "run/gyre/instruction.md").is_symlink()
    assert (root / "run/gyre/instruction.md").read_text() == "do it"


def test_a_link_in_the_context_gives_no_other_part_of_the_task_to_the_agent(tmp_path: Path) -> None:
    task = with_dockerfile(tmp_path, "COPY answer /app/\n")
    (task / "environment" / "answer").symlink_to("../tests/test.sh")
    with pytest.raises(BadTask, match="one/environment/Dockerfile:2: COPY answer: no such file"):
        plan(load_task(task))


def test_uploaded_tests_replace_links_and_do_not_follow_them(place: Path, tmp_path: Path) -> None:
    tests = write_task(tmp_path) / "one" / "tests"
    (tests / "deep").mkdir()
    (tests / "deep" / "up").symlink_to("../test.sh")
    workspace = Workspace(tmp_path / "home", place)
    workspace.upload_tests(tests)
    assert os.readlink(place / "verify" / "tests" / "deep" / "up") == "../test.sh"


@pytest.mark.parametrize(
    ("settings", "dockerfile", "message"),
    [
        ("[environment]\nworkdir = '/app/../../../x'", "", "one/task.toml:2: environment.workdir: must not contain"),
        ("", "USER ../../x\n", "one/environment/Dockerfile:2: USER '../../x'"),
        ("", "USER /etc\n", "one/environment/Dockerfile:2: USER '/etc'"),
        ("[agent]\nuser = '../../x'", "", "one/task.toml:2: agent.user: '../../x'"),
        ("[verifier]\nuser = '..'", "", "one/task.toml:2: verifier.user: '..'"),
        ("[[verifier.collect]]\ncommand = 'x'\nuser = 'a/b'", "", "verifier.collect.0.user: 'a/b'"),
        ("artifacts = ['/app/../../x']", "", "artifacts.0.source: "),
        ("artifacts = ['/']", "", "artifacts.0.source: must not be all that there is"),
        ("[[steps]]\nname = '../x'", "", "steps.0.name: "),
        ("[[steps]]\nname = \"x\\n\"", "", "steps.0.name: "),
        ("", "COPY <<../../x /app/\ntext\n../../x\n", "one/environment/Dockerfile:2: COPY <<../../x: is no file name"),
        ("", "COPY ../a.txt /app/\n", "one/environment/Dockerfile:2: COPY must "),
        ("", "WORKDIR /app/../usr/lib\n", "/usr/lib cannot be the working directory"),
        ("", "WORKDIR //tests\n", "/tests cannot be the working directory"),
        ("", "COPY a.txt /app/../etc/passwd\n", "one/environment/Dockerfile:2: COPY to /etc/passwd: read-only here"),
        ("", "COPY tree /\n", "one/environment/Dockerfile:2: COPY to /etc: read-only here"),
        ("", "COPY a.txt /tests/test.sh\n", "COPY to /tests/test.sh: Gyre's own directory stands there"),
        ("", f"WORKDIR /{'x' * 300}\n", "is longer than 1000 bytes, or a part of it than 255"),
        ("[environment]\nworkdir = \"/a\\u0000\"", "", "one/task.toml:2: environment.workdir: contains a NUL"),
    ],
)  # fmt: skip
def test_what_no_honest_task_has_is_refused_at_launch(
    tmp_path: Path, settings: str, dockerfile: str, message: str
) -> None:
    task = with_dockerfile(tmp_path, dockerfile)
    (task / "environment" / "tree" / "etc").mkdir(parents=True)
    (task / "environment" / "tree" / "etc" / "motd").write_text("x")
    (task / "task.toml").write_text(settings)
    with pytest.raises(BadTask) as refused:
        plan(load_task(task))
    assert message in str(refused.value)


def test_a_user_name_is_no_path_of_the_frame_of_sandboxes(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="is no user name"):
        etc(tmp_path, User("x/../../../y"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["../secret.txt", "/../secret.txt", "up/secret.txt", "top/secret.txt", "magic"])
def test_the_kernel_resolves_nothing_out_of_a_tree(path: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("untouched")
    root = tmp_path / "root"
    root.mkdir()
    (root / "up").symlink_to("..")
    (root / "top").symlink_to(tmp_path)
    (root / "magic").symlink_to("/proc/self/root")
    with Beneath(root) as tree:
        with pytest.raises(OSError, match=r"No such file|Too many"):
            os.close(tree.open(path, os.O_RDONLY))
        assert tree.real("up") == root
