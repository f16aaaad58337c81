"""Contrast of the style sheet, in both themes: WCAG 2.2, text 4.5 to 1 (1.4.3), marks and frames 3 to 1 (1.4.11)."""

import itertools
import re
from pathlib import Path

import pytest

from pp3.harness.report.pictures.svg import TOKENS
from pp3.harness.report.template import MARKS, TEMPLATES, TONES

SHEET = (TEMPLATES / "style.css").read_text("utf-8")
TEXT = ("ink", "soft", "pass", "fail", "other", "law")  # law: links and summaries
DRAWN = ("law", "warn", "good", "ink", "soft", "pass", "fail", "other", "focus")
GROUNDS = ("paper", "panel")
AA_TEXT, AA_MARKS = 4.5, 3.0
PAGES = sorted(path.name for path in TEMPLATES.glob("*.html"))
DECLARED = re.compile(r"--([a-z]+): (#[0-9a-f]{6})")
ROOTS = re.findall(r":root \{(.*?)\}", SHEET, re.DOTALL)
THEMES = {"light": dict(DECLARED.findall(ROOTS[0])), "dark": dict(DECLARED.findall(ROOTS[1]))}


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """From 1 to 21: https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_ratio_is_that_of_the_standard() -> None:
    """Black on white is 21; #767676 is the lightest grey that passes for text on white."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") >= AA_TEXT > contrast("#777777", "#ffffff")


def test_both_themes_name_the_same_colours() -> None:
    """The dark one replaces every colour of the light one."""
    assert len(ROOTS) == 2
    assert THEMES["light"].keys() == THEMES["dark"].keys()
    assert set(TEXT) | set(DRAWN) | set(GROUNDS) | {"line"} == set(THEMES["light"])
    assert {token.removeprefix("--") for token in TOKENS.values()} <= set(THEMES["light"])


@pytest.mark.parametrize(("theme", "colour", "ground"), [*itertools.product(THEMES, TEXT, GROUNDS)])
def test_text_is_read(theme: str, colour: str, ground: str) -> None:
    """AA, on the page and on a panel."""
    assert contrast(THEMES[theme][colour], THEMES[theme][ground]) >= AA_TEXT


@pytest.mark.parametrize(("theme", "colour", "ground"), [*itertools.product(THEMES, DRAWN, GROUNDS)])
def test_marks_are_seen(theme: str, colour: str, ground: str) -> None:
    """AA of what is no text."""
    assert contrast(THEMES[theme][colour], THEMES[theme][ground]) >= AA_MARKS


@pytest.mark.parametrize("theme", THEMES)
def test_the_banner_is_read(theme: str) -> None:
    """Paper on the colour of a failure."""
    assert contrast(THEMES[theme]["paper"], THEMES[theme]["fail"]) >= AA_TEXT


def test_the_palette_is_that_of_okabe_and_ito() -> None:
    """Blue, vermilion and bluish green as drawn (https://jfly.uni-koeln.de/color/); themes tune them for contrast."""
    assert {"#0072b2", "#d55e00", "#009e73"} <= set(TOKENS)


def test_no_colour_stands_alone() -> None:
    """Every tone of a verdict has a sign of its own."""
    assert set(TONES.values()) | {"other"} == set(MARKS)
    assert len(set(MARKS.values())) == len(MARKS)


@pytest.mark.parametrize("name", PAGES)
def test_a_colour_is_never_given_but_by_the_sheet(name: str) -> None:
    """No template has a colour, a style or a handler of its own."""
    text = Path(TEMPLATES / name).read_text("utf-8")
    assert not re.search(r"#[0-9a-fA-F]{6}|style=|\son[a-z]+=|<script", text)
