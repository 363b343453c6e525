"""A harness and a policy are tried together before a run: captured requests before the policy's template."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agents.harness.drivers import HARNESSES
from agents.proxy.families import SHAPES
from agents.proxy.rendering import BUNDLED_POLICY, Rendering
from agents.proxy.traffic.fitting import CAPTURES, Fit, fit, replayed
from tests.proxy import policies
from tests.support.docs_tables import DocsTable

TABLE = DocsTable("harnesses.md", "families")
#: What writes the table anew.
REWRITE = ".venv/bin/python -m tests.traffic.test_fitting"
BARE = "own template"

REFUSING = """
{%- for m in messages %}
    {%- if 'billing' in m.content or 'Claude' in m.content %}{{ raise_exception('no rivals here') }}{% endif %}
    {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}
"""


def policy(folder: Path, family: str) -> Path:
    """A policy of this family, without weights."""
    if family == BARE:
        return policies.write(folder, "unheard_of", template=policies.CHAT_TEMPLATE)
    return policies.write(folder, known_as=policies.KNOWN_AS[family])


def cell(found: Fit) -> str:
    """What the table says of a harness before a family."""
    if found.num_refused:
        return f"{found.num_refused} of {found.num_requests} refused"
    if found.false_forks:
        return f"{found.false_forks} of {found.num_requests} anew"
    return "yes" if found.extends else "whole"


def table(folder: Path) -> str:
    """The families as lines, the harnesses as columns."""
    lines = [f"| family | {' | '.join(HARNESSES)} |", "|---" * (len(HARNESSES) + 1) + "|"]
    for family in (*SHAPES, BARE):
        rendering = Rendering(policy(folder / family, family))
        cells = [cell(replayed(harness, CAPTURES / f"{harness}.jsonl", rendering)) for harness in HARNESSES]
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_docs_show_which_harness_works_with_which_family(tmp_path: Path) -> None:
    assert TABLE.shown() == table(tmp_path), f"docs/harnesses.md is not what is true now: {REWRITE}"


def test_every_harness_that_a_run_can_ask_for_ships_a_capture() -> None:
    assert {path.stem for path in CAPTURES.glob("*.jsonl")} == set(HARNESSES)


@pytest.mark.parametrize("harness", HARNESSES)
def test_every_harness_works_with_the_bundled_policy(harness: str) -> None:
    found = fit(harness, BUNDLED_POLICY)
    assert found is not None
    assert (found.problem, found.false_forks, found.extends) == ("", 0, True)
    assert found.num_requests >= 5


def test_a_pair_that_cannot_work_is_named_with_what_the_template_said(tmp_path: Path) -> None:
    found = fit("claude-code", policies.write(tmp_path, "unheard_of", template=REFUSING))
    assert found is not None
    assert re.fullmatch(
        rf"claude-code does not work with the policy in {tmp_path} \(family default\): of the 10 requests of an "
        r"execution captured from it, [1-9]\d* would be refused, the first because the policy's chat template cannot "
        r"say this: no rivals here",
        found.problem,
    )
    other = fit("mini-swe-agent", tmp_path)
    assert other is not None
    assert other.problem == ""


def test_a_policy_is_asked_again_only_when_it_has_changed(tmp_path: Path) -> None:
    folder = policies.write(tmp_path, "unheard_of", template=policies.CHAT_TEMPLATE)
    first = fit("reference", folder)
    assert fit("reference", folder) is first
    (folder / "chat_template.jinja").write_text("{{ raise_exception('nothing') if messages | length > 2 }}.")
    changed = fit("reference", folder)
    assert changed is not None
    assert changed.problem.endswith("cannot say this: nothing")


def test_a_harness_without_a_profile_of_its_own_is_tried_all_the_same() -> None:
    found = replayed("somebody-elses", CAPTURES / "codex.jsonl", Rendering(BUNDLED_POLICY))
    assert (found.harness, found.problem, found.num_requests) == ("somebody-elses", "", 8)


def test_a_harness_of_which_nothing_is_captured_is_not_judged() -> None:
    assert fit("somebody-elses", BUNDLED_POLICY) is None


def test_a_policy_is_tried_without_torch_or_transformers() -> None:
    code = (
        "import sys; from agents.proxy.traffic.fitting import fit; from agents.proxy.rendering import BUNDLED_POLICY;"
        "assert fit('codex', BUNDLED_POLICY).problem == '';"
        "print(sorted({'torch', 'transformers', 'sglang'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        TABLE.write(table(Path(scratch)))
