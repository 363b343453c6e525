"""The look, as far as a machine can judge it: contrast, no inline style, safe scripts, licences of vendored files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gyreweb.env import REPO_ROOT
from gyreweb.templatetags import gyre

STATIC, TEMPLATES = REPO_ROOT / "static", REPO_ROOT / "templates"
OWN_SCRIPTS = sorted((STATIC / "js").glob("*.js"))
PAGES = sorted(TEMPLATES.rglob("*.html"))
TEXT = (
    "ink", "ink-2", "ink-3", "accent", "rollout-ink", "training-ink", "switching-ink", "ok", "partial", "nowork",
    "unresolved", "warn", "bad", "role-main", "role-main-summary", "role-sub", "role-sub-summary", "role-aux",
)  # fmt: skip
SIGNS = ("rollout", "training", "switching", "lost")
THEMES = {"light": 0, "dark": 1}


def _tokens() -> dict[str, tuple[str, str]]:
    css = (STATIC / "css" / "tokens.css").read_text()
    found = re.findall(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]+), (#[0-9a-f]+)\);", css)
    return {name: (light, dark) for name, light, dark in found}


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ground", ["bg", "panel", "panel-2"])
def test_text_has_a_contrast_of_at_least_4_5_on_every_ground(theme: str, ground: str) -> None:
    tokens, at = _tokens(), THEMES[theme]
    poor = {name: round(_contrast(tokens[name][at], tokens[ground][at]), 2) for name in TEXT}
    assert {name: ratio for name, ratio in poor.items() if ratio < 4.5} == {}
    assert _contrast(tokens["accent-ink"][at], tokens["accent"][at]) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_role_colours_stand_out_from_the_ground_and_differ_in_lightness(theme: str) -> None:
    tokens, at = _tokens(), THEMES[theme]
    low = 2.5 if theme == "light" else 3
    assert all(_contrast(tokens[name][at], tokens["panel"][at]) >= low for name in SIGNS)


def test_colours_are_declared_once_in_the_tokens() -> None:
    allowed = {"dialog::backdrop"}
    for sheet in sorted((STATIC / "css").glob("*.css")):
        if sheet.name == "tokens.css":
            continue
        for line in sheet.read_text().splitlines():
            if re.search(r"#[0-9a-fA-F]{3,8}\b(?![^{]*\{)", line) and not any(a in line for a in allowed):
                colours = [c for c in re.findall(r"#[0-9a-fA-F]{3,8}\b", line) if f"url({c}" not in line]
                assert not [c for c in colours if re.fullmatch(r"#(?:[0-9a-fA-F]{3}){1,2}", c)], f"{sheet.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_templates_hold_no_inline_style_script_or_unsafe_filter(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"\s(style|on[a-z]+)\s*=\s*[\"']", text)
    assert "<style" not in text
    assert "|safe" not in text
    assert "autoescape off" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert "http://" not in text.replace("http://127", "")
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", text)


@pytest.mark.parametrize("script", OWN_SCRIPTS, ids=lambda path: path.name)
def test_scripts_never_parse_text_as_markup_or_code(script: Path) -> None:
    text = script.read_text()
    for unsafe in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        ".cssText",
    ):
        assert unsafe not in text, unsafe
    assert not re.search(r"https?://(?!www\.w3\.org)", text)


def test_motion_is_only_for_those_who_did_not_ask_for_less() -> None:
    for sheet in sorted((STATIC / "css").glob("*.css")):
        text = re.sub(r"@media \(prefers-reduced-motion: no-preference\) \{.*?\n\}", "", sheet.read_text(), flags=re.S)
        assert "transition:" not in text, sheet.name
        assert "animation:" not in text, sheet.name


def test_every_vendored_folder_has_its_licence_and_stands_in_the_notice() -> None:
    notice = (STATIC / "vendor" / "NOTICE.md").read_text()
    for folder in sorted((STATIC / "vendor").iterdir()):
        if folder.is_dir():
            assert list(folder.glob("LICENSE*")), folder.name
            assert f"`{folder.name}/" in notice, folder.name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a<b>&\"'", "a&lt;b&gt;&amp;&quot;&#x27;"),
        ("x\x1b[1m", 'x<span class="ctl" title="control character U+001B">\\x1b</span>[1m'),
        ("\u202e", '<span class="ctl" title="control character U+202E">U+202E</span>'),
        ("tab\tnew\nline é 漢 🙂", "tab\tnew\nline é 漢 🙂"),
        ("\ufffd", "\ufffd"),
    ],
)
def test_hostile_characters_are_shown_and_readable_ones_stay(text: str, shown: str) -> None:
    assert gyre.visible(text) == shown


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.18, "180 ms"),
        (12.44, "12.4 s"),
        (60, "1 min"),
        (192, "3 min 12 s"),
        (14472, "4.02 h"),
    ],
)
def test_durations_read_like_speech(value: float | None, said: str) -> None:
    assert gyre.duration(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (0, "0"), (9999, "9,999"), (12_345, "12.3k"), (702_000, "702k"), (19_400_000, "19.4M"), (2e9, "2G")],
)
def test_large_numbers_are_short(value: float | None, said: str) -> None:
    assert gyre.short(value) == said


@pytest.mark.parametrize(("value", "said"), [(-0.00001, "0.0000"), (0.0, "0.0000"), (-0.0008, "−0.0008"), (None, "–")])
def test_a_number_that_rounds_to_zero_has_no_sign(value: float | None, said: str) -> None:
    assert gyre.fixed(value, 4) == said


def test_a_difference_that_rounds_to_zero_is_plus_zero() -> None:
    assert (gyre.signed(-0.001, 2), gyre.signed(-0.01, 2)) == ("+0.00", "−0.01")
