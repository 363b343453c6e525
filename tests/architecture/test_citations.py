"""What is cited is there: documents and their sections in code, links between documents, files that documents name."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.core.management import get_commands
from sources import text_of, tracked_files

from gyreweb.env import REPO_ROOT

CITING = (".py", ".html", ".js", ".css", ".toml", ".md")
NO_DOCUMENTS = ("agents/tasksets/", "agents/proxy/traffic/captures/", "tests/architecture/test_citations.py")
#: A document, and behind it sections ("§2, §7.1"), one heading in quotes, or an anchor.
CITATION = re.compile(
    r"(?P<where>[\w/.-]*?)(?P<name>[a-z0-9-]+\.md)(?:(?P<sections> §[\d.]*\d(?:(?:, | and )§[\d.]*\d)*)|"
    r' "(?P<heading>[^"\n]+)"|#(?P<anchor>[\w-]+))?'
)
#: Written at set-up, and not in the repository.
GENERATED = ("agents/tasksets/quickstart/",)
LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
NAMED_FILE = re.compile(r"`((?:agents|gyreweb|scheduler|trainers|tests|docker|templates|static)/[\w./-]+)`")


def texts(*endings: str) -> list[tuple[Path, str]]:
    found = [path for path in tracked_files() if path.suffix in endings and not str(path).startswith(NO_DOCUMENTS)]
    return [(path, text_of(path)) for path in found]


def headings(document: Path) -> list[str]:
    outside_code = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"[`*]", "", line.lstrip("# ")) for line in outside_code.splitlines() if re.match(r"#+ ", line)]


def anchor_of(heading: str) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def has_section(document: Path, number: str) -> bool:
    """Sections are headings that begin with their number; §2.3 is the third point of a numbered list in §2."""
    section, _, point = number.partition(".")
    found = re.search(rf"^## {section}\. .*?(?=^## |\Z)", document.read_text(), re.MULTILINE | re.DOTALL)
    return bool(found) and (not point or bool(re.search(rf"^{point}\. ", found[0], re.MULTILINE)))


def problems_with(citation: re.Match[str]) -> list[str]:
    document = REPO_ROOT / "docs" / citation["name"]
    if not document.is_file():
        return [f"{citation[0]}: there is no such document"]
    missing = [f"§{n}" for n in re.findall(r"§([\d.]*\d)", citation["sections"] or "") if not has_section(document, n)]
    if citation["heading"] and citation["heading"] not in headings(document):
        missing.append(citation["heading"])
    if citation["anchor"] and citation["anchor"] not in map(anchor_of, headings(document)):
        missing.append(citation["anchor"])
    return [f"{citation[0]}: there is no {name}" for name in missing]


def _is_bare(path: Path, citation: re.Match[str]) -> bool:
    """A document of ours named in code without its folder; strings that only hold its file name are none."""
    is_named = bool(re.search(rf'(\(|/ )"{re.escape(citation["name"])}"', text_of(path)))
    return path.suffix != ".md" and (REPO_ROOT / "docs" / citation["name"]).is_file() and not is_named


def test_every_document_and_section_that_is_cited_exists() -> None:
    wrong, num_cited = [], 0
    for path, text in texts(*CITING):
        for citation in CITATION.finditer(text):
            if citation["where"].endswith("docs/"):
                num_cited += 1
                wrong += [f"{path}: {problem}" for problem in problems_with(citation)]
            elif citation["sections"] or citation["heading"] or _is_bare(path, citation):
                wrong.append(f"{path}: {citation[0]}: cite documents as docs/NAME.md")
    assert wrong == []
    assert num_cited > 100


@pytest.mark.parametrize(
    "citation", ["docs/algorithms.md §13", "docs/algorithms.md §2.8", "docs/laws.md", "docs/proxy.md#x"]
)
def test_a_citation_of_what_is_not_there_is_found(citation: str) -> None:
    found = CITATION.search(citation)
    assert found is not None
    assert len(problems_with(found)) == 1


def test_links_between_documents_lead_somewhere() -> None:
    wrong = []
    for path, text in texts(".md"):
        for link in LINK.finditer(text):
            target = (REPO_ROOT / path).parent / link["target"] if link["target"] else REPO_ROOT / path
            if not target.exists() or (
                link["anchor"] and target.suffix == ".md" and link["anchor"] not in map(anchor_of, headings(target))
            ):
                wrong.append(f"{path}: {link[0]}")
    assert wrong == []


def test_files_that_documents_name_exist() -> None:
    wrong = [
        f"{path}: {name}"
        for path, text in texts(".md")
        if path.parts[0] == "docs" or len(path.parts) == 1
        for name in NAMED_FILE.findall(text)
        if path.name != "CHANGELOG.md"
        and name not in GENERATED
        and not list(REPO_ROOT.glob(name.rstrip("/").replace("NAME", "*")))
    ]
    assert wrong == []


def test_commands_that_documents_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPO_ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {"manage.py": set(get_commands()), "make": targets}
    wrong = []
    for path, text in texts(".md"):
        if path.parts[0] not in ("docs", "README.md", "CONTRIBUTING.md"):
            continue
        for program, command in re.findall(r"`(?:\.venv/bin/python )?(manage\.py|make) ([a-z_-]+)", text):
            if command not in known[program]:
                wrong.append(f"{path}: {program} {command}")
        wrong += [f"{path}: {module}" for module in re.findall(r"python -m ([\w.]+)", text) if not find_spec(module)]
    assert wrong == []
