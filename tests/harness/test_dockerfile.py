"""Dockerfiles as people write them are read as BuildKit reads them, or refused by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.harness.sandbox.base import User
from agents.harness.sandbox.workspace import build_root
from agents.harness.taskformat import BadTask, globs, load_task
from agents.harness.taskformat.dockerfile import PATH, Image, load_dockerfile, read_dockerfile
from agents.harness.taskformat.local import plan
from tests.harness.rows import write_task


def read(text: str) -> Image:
    return read_dockerfile("FROM debian\n" + text, "Dockerfile")


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ('ENV PATH="/opt/bin:$PATH"', {"PATH": f"/opt/bin:{PATH}"}),
        ("ENV PATH /opt/bin:${PATH}", {"PATH": f"/opt/bin:{PATH}"}),
        ("ENV PATH=/a:$PATH\nENV PATH=/b:$PATH", {"PATH": f"/b:/a:{PATH}"}),
        ("ENV A='$USER'", {"A": "$USER"}),
        ("ENV A=\"it's\" B=it\\'s", {"A": "it's", "B": "it's"}),
        ('ENV A="a \\"b\\"" B=\\$PATH C=a\\ b', {"A": 'a "b"', "B": "$PATH", "C": "a b"}),
        ("ENV A=1\nENV A=2 B=$A", {"A": "2", "B": "1"}),
        ("ENV A=${NO:-x} B=${NO-y} C=${NO:+z} D=$NO", {"A": "x", "B": "y", "C": "", "D": ""}),
        ("ENV A=abc\nENV B=${A:+set} C=${A#a} D=${A%c}", {"A": "abc", "B": "set", "C": "bc", "D": "ab"}),
        ("ENV A two  words", {"A": "two  words"}),
        ("ENV A=", {"A": ""}),
        ("ENV\tA=1\t\tB=2", {"A": "1", "B": "2"}),
        ("env A=1 \\\n# a comment\n\n  B=2", {"A": "1", "B": "2"}),
        ("ENV A=1 \\  \n  B=2", {"A": "1", "B": "2"}),
        ("ARG A=1\nENV B=$A", {"B": "1"}),
        ("ARG A=1 B=2\nENV A=3\nENV C=$A$B", {"A": "3", "C": "32"}),
        ("ENV A=$HOME", {"A": ""}),
        ("CMD [\"x\"]\nENV A='a b'c", {"A": "a bc"}),
    ],
)
def test_variables(text: str, env: dict[str, str]) -> None:
    assert read(text).env == env


@pytest.mark.parametrize(
    ("text", "workdir"),
    [
        ('WORKDIR "/app"', "/app"),
        ("WORKDIR '/a b'", "/a b"),
        ("WORKDIR /a b", "/a b"),
        ("WORKDIR\t/work", "/work"),
        ("workdir   /work  ", "/work"),
        ("WORKDIR /a/\nWORKDIR b//c/.", "/a/b/c"),
        ("WORKDIR /a\nWORKDIR ../b", "/b"),
        ("ENV D=/data\nWORKDIR ${D}/x", "/data/x"),
        ("ARG D\nWORKDIR /x", "refused"),
        ("WORKDIR", "refused"),
        ("WORKDIR ${D:?must be set}", "refused"),
        ("WORKDIR ${D", "refused"),
        ('WORKDIR "/app', "refused"),
    ],
)
def test_working_directories(text: str, workdir: str) -> None:
    if workdir == "refused":
        with pytest.raises(BadTask, match=r"Dockerfile:2: "):
            read(text)
    else:
        assert read(text).workdir == workdir


@pytest.mark.parametrize(
    ("content", "env"),
    [
        (b"\xef\xbb\xbfFROM debian\nENV A=1\n", {"A": "1"}),
        (b"FROM debian\r\nENV A=1 \\\r\n  B=2\r\n", {"A": "1", "B": "2"}),
        (b"FROM debian\n# caf\xe9\nENV A=1 \\\n# \xff\n B=2\n", {"A": "1", "B": "2"}),
        (b"# escape=`\nFROM debian\nENV A=c:\\x `\n  B=`$A\n", {"A": "c:\\x", "B": "$A"}),
        (b"# syntax=docker/dockerfile:1\n# escape=`\nFROM debian\nENV A=\\\n", {"A": "\\"}),
        (b"# a comment\n# escape=`\nFROM debian\nENV A=a`b\n", {"A": "a`b"}),
        (b"ARG V=12\nFROM debian:$V\nARG V\nENV A=$V\n", {"A": "12"}),
        (b"ARG V=12\nFROM debian:$V\nENV A=$V\n", {"A": ""}),
        (b"FROM --platform=linux/amd64 debian\nENV A=\xc3\xa9\n", {"A": "é"}),
        (b"FROM debian\nCOPY <<EOF /a\nENV A=1\nEOF\nENV B=2", {"B": "2"}),
    ],
)
def test_files(content: bytes, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_bytes(content)
    assert load_dockerfile(tmp_path / "Dockerfile", "Dockerfile").env == env


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Dockerfile: has no FROM"),
        (b"# nothing\n", "Dockerfile: has no FROM"),
        (b"ENV A=1\nFROM debian\n", "Dockerfile:1: ENV stands before FROM"),
        (b"FROM debian\nENV\n", "Dockerfile:2: ENV needs a name and a value"),
        (b"FROM debian\nENV A\n", "Dockerfile:2: ENV must have two arguments"),
        (b"FROM debian\nENV A=1 B\n", "Dockerfile:2: Syntax error - can't find = in \"B\""),
        (b"FROM debian\nENV =1\n", "Dockerfile:2: '' is no name of an environment variable"),
        (b"FROM debian\n\nENV NOTE=it's\n", "Dockerfile:3: failed to process \"it's\""),
        (b"FROM debian\nFRMO x\n", "Dockerfile:2: unknown instruction: FRMO"),
        (b"FROM debian\nENV A=\xff\n", "Dockerfile:2: ENV is not UTF-8"),
        (b"FROM debian\nENV A=a\0b\n", "Dockerfile:2: ENV contains a NUL"),
        (b"# escape=x\nFROM debian\n", "Dockerfile:1: invalid escape token"),
        (b"FROM debian\nCOPY <<EOF /a\ntext\n", "Dockerfile:2: unterminated heredoc"),
        (b"FROM debian\nCOPY a\n", "Dockerfile:2: COPY must name files"),
        (b"FROM debian\nCOPY [1, 2]\n", "Dockerfile:2: "),
        (b"FROM debian\nCOPY a b /c\n", "Dockerfile:2: COPY of several files needs a destination that ends in '/'"),
        (b'FROM debian\nCOPY "a b" /c\n', "Dockerfile:2: COPY is split at blanks"),
        (b"FROM debian\nCOPY a\\ b /c\n", "Dockerfile:2: COPY is split at blanks"),
        (b"FROM debian\nCOPY a\xc2\xa0b /c\n", "Dockerfile:2: COPY is split at blanks"),
        (b"FROM debian\nCOPY --chmod=u+x a /c\n", "Dockerfile:2: COPY --chmod must be three octal digits"),
        (b"FROM debian\nCOPY --parents a /c\n", "Dockerfile:2: COPY --parents needs a container backend"),
        (b"FROM debian\nCOPY " + b"[" * 100_000 + b" x\n", "Dockerfile: cannot be read: "),
        (b"FROM debian\nENV A=xxxxxxxx\n" + b"ENV A=$A$A$A$A$A$A$A$A$A\n" * 40, "ENV may grow longer than"),
        (b"FROM debian\n" * 100_000, "Dockerfile: is longer than"),
        ("FROM debian\nENV A=1\n".encode("utf-16"), "Dockerfile:"),
    ],
)  # fmt: skip
def test_what_is_no_dockerfile_is_refused_by_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_bytes(content)
    with pytest.raises(BadTask) as refused:
        load_dockerfile(tmp_path / "Dockerfile", "Dockerfile")
    assert message in str(refused.value)


CONTEXT = ("a.txt", "b.txt", ".hidden", "deep/c.txt", "deep/er/d.txt", "x y.txt", "notes.md", "deep/notes.md")


def copied(folder: Path, dockerfile: str, ignore: str | None = None) -> set[str]:
    """The files that a Dockerfile's COPY instructions put into a fresh tree."""
    task = write_task(folder / "set") / "one"
    context = task / "environment"
    for name in CONTEXT:
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text(name)
    (context / "link").symlink_to("a.txt")
    (context / "Dockerfile").write_text("FROM debian\nWORKDIR /app\n" + dockerfile)
    if ignore is not None:
        (context / ".dockerignore").write_text(ignore)
    root = folder / "root"
    build_root(root, plan(load_task(task)), context, User())
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


ALL = {f"app/{name}" for name in (*CONTEXT, "link", "Dockerfile")}


@pytest.mark.parametrize(
    ("dockerfile", "files"),
    [
        ("COPY . /app", ALL),
        ("COPY ./ /app/", ALL),
        ("COPY / /app/", ALL),
        ("COPY . .", ALL),
        ("COPY [\".\", \"/app/\"]", ALL),
        ("COPY [ab].txt /app/", {"app/a.txt", "app/b.txt"}),
        ("COPY [^a].txt /app/", {"app/b.txt"}),
        ("COPY [!a].txt /app/", {"app/a.txt"}),  # a class of ! and a
        ("COPY ?.txt new/", {"app/new/a.txt", "app/new/b.txt"}),
        ("COPY *.txt /app/", {"app/a.txt", "app/b.txt", "app/x y.txt"}),
        ("COPY .h* /app/", {"app/.hidden"}),
        ("COPY */*.txt /app/", {"app/c.txt"}),
        ("COPY **/d.txt /app/", set()),  # no more than */d.txt
        ("COPY optional*.json a.txt /app/", {"app/a.txt"}),
        ("COPY deep /app/", {"app/c.txt", "app/er/d.txt", "app/notes.md"}),
        ("COPY deep new", {"app/new/c.txt", "app/new/er/d.txt", "app/new/notes.md"}),
        ("COPY d*p new/", {"app/new/c.txt", "app/new/er/d.txt", "app/new/notes.md"}),
        ("COPY a.txt /app", {"app/a.txt"}),
        ("COPY a.txt new", {"app/new"}),
        ("COPY a.txt new/\nCOPY b.txt new", {"app/new/a.txt", "app/new/b.txt"}),
        ("COPY ./a.txt ./deep//c.txt /data/", {"data/a.txt", "data/c.txt"}),
        ("COPY [\"x y.txt\", \"/app/\"]", {"app/x y.txt"}),
        ("COPY link /app/", {"app/link"}),
        ("ENV N=a\nCOPY $N.txt ${N}/", {"app/a/a.txt"}),
        ("COPY <<one <<'two' /app/\n1\none\n2\ntwo\n", {"app/one", "app/two"}),
        ("COPY <<one /app/new\n1\none\n", {"app/new"}),
    ],
)  # fmt: skip
def test_copies(dockerfile: str, files: set[str], tmp_path: Path) -> None:
    assert copied(tmp_path, dockerfile) == files


@pytest.mark.parametrize(
    ("ignore", "left_out"),
    [
        ("*.md\n", {"notes.md"}),
        ("**/*.md\n", {"notes.md", "deep/notes.md"}),
        ("/deep\n!deep/er\n", {"deep/c.txt", "deep/notes.md"}),
        ("# a.txt\n\n  b.txt  \n", {"b.txt"}),
        ("\ufeffa.txt\r\nb.txt\r\n", {"a.txt", "b.txt"}),
    ],
)
def test_ignored_files_are_no_part_of_the_context(ignore: str, left_out: set[str], tmp_path: Path) -> None:
    assert copied(tmp_path, "COPY . /app", ignore) == {*ALL, "app/.dockerignore"} - {f"app/{it}" for it in left_out}


def test_copied_files_have_their_contents_modes_and_followed_links(tmp_path: Path) -> None:
    copied(
        tmp_path,
        "COPY --chmod=700 a.txt x\nCOPY link l\nCOPY <<E t\n\t$PATH\nE\nCOPY <<-'E' u\n\t$PATH\nE\nCOPY . all\n",
    )
    app = tmp_path / "root" / "app"
    assert ((app / "x").stat().st_mode & 0o777, (app / "x").read_text()) == (0o700, "a.txt")
    assert not (app / "l").is_symlink()
    assert (app / "all" / "link").is_symlink()
    assert ((app / "t").read_text(), (app / "u").read_text()) == (f"\t{PATH}\n", "$PATH\n")


@pytest.mark.parametrize(
    ("dockerfile", "ignore", "message"),
    [
        ('COPY ["a.txt" "/app/"]', None, "environment/Dockerfile:3: COPY: the pattern '[a.txt' has a class without"),
        ("COPY a[ /app/", None, "environment/Dockerfile:3: COPY: the pattern 'a[' has a class without an end"),
        ("COPY c.txt /app/", None, "environment/Dockerfile:3: COPY c.txt: no such file"),
        ("COPY a.txt /app/", "a.txt", "environment/Dockerfile:3: COPY a.txt: no such file"),
        ("COPY . /app/", "[", "environment/.dockerignore: cannot be read"),
        ("COPY deep /new\nCOPY a.txt /new/er\nCOPY deep/c.txt /new/er/a.txt/b", None, "a file in place of a directory"),
    ],
)  # fmt: skip
def test_a_copy_that_docker_does_not_take_is_refused(
    dockerfile: str, ignore: str | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadTask) as refused:
        copied(tmp_path, dockerfile, ignore)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("*", ["", "a", ".a"], []),
        ("a*b*c", ["abc", "axbxc", "abcbc"], ["ab", "abcx"]),
        ("[a-c]?", ["a.", "cx"], ["dx", "a"]),
        ("[\\]x]", ["]", "x"], ["\\"]),
        ("\\*", ["*"], ["a"]),
        ("[^]a]", [], []),
    ],
)
def test_wildcards(pattern: str, fitting: list[str], other: list[str]) -> None:
    if not fitting:
        with pytest.raises(globs.BadPattern):
            globs.matches(pattern, "a")
    assert all(globs.matches(pattern, name) for name in fitting)
    assert not any(globs.matches(pattern, name) for name in other)


def test_a_wildcard_takes_no_more_steps_than_name_times_pattern() -> None:
    assert not globs.matches("*a" * 100 + "b", "a" * 250)
