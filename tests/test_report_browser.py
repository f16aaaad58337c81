"""Pages in Debian's Chromium: nothing asked for, nothing complained of, nothing cut, at every width and on paper."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chromium import Tab, find, running

from pp3.harness.evidence.receipt import read
from pp3.harness.regression.compare import CellRow, Mark, compare
from pp3.harness.regression.opened import open_receipt
from pp3.harness.report import comparison, entries, history, index
from pp3.harness.report.render import page

EVIDENCE = Path(__file__).parent.parent / "receipts" / "evidence"
WIDTHS = (360, 768, 1280)
SCHEMES = ("light", "dark")
PAPER = {"light": (255, 255, 255), "dark": (20, 22, 26)}  # of style.css
HOSTILE = {
    "markup": "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\"><b>bold",
    "attribute": "\" onload=\"document.title = 'run'\" x='",
    "long": "name" * 2_000,
    "right-to-left": "\u202egnp.tpircsavaj\u202c \u05d0\u05d1\u05d2 \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "emoji": "\U0001f469\u200d\U0001f680 \U0001f1e8\U0001f1ed a\u0300\u0301\u0302",
    "style": "</style><style>body{display:none}</style>{{ 7 * 7 }}",
}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One tab for all tests of this module."""
    if not find():
        pytest.skip("no Chromium here: apt-get install chromium")
    with running(tmp_path_factory.mktemp("browser")) as browser:
        yield browser.tab()


@pytest.fixture(scope="module")
def written(real_receipt: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the default campaign."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page(*read(real_receipt)), "utf-8")
    return path


def test_what_a_page_must_not_do_would_be_seen(tab: Tab, tmp_path: Path) -> None:
    """A request, a word in the console, and an overflow, of a page that has all three."""
    path = tmp_path / "bad.html"
    path.write_text("<img src='other.png' width=900><script>console.error('no')</script>", "utf-8")
    tab.open(path, 360)
    assert tab.requests() == [(tmp_path / "other.png").as_uri()]
    assert any("no" in said for said in tab.complaints())
    assert tab.value("document.documentElement.scrollWidth") > 360


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_asks_for_nothing_and_fits(tab: Tab, written: Path, width: int, scheme: str) -> None:
    """No request but the page, no word in the console, nothing wider than the screen, the theme asked for."""
    tab.open(written, width, scheme)
    shot = tab.screenshot()
    assert tab.requests() == []
    assert tab.complaints() == []
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert size(shot)[0] == width
    assert size(shot)[1] > 3_000  # the whole page, not the first screen of it
    assert tab.value("getComputedStyle(document.documentElement).backgroundColor") == f"rgb{PAPER[scheme]}"


def test_every_picture_is_drawn_in_the_text_colour_of_the_theme(tab: Tab, written: Path) -> None:
    """A picture with its own ink would vanish in the dark."""
    for scheme in SCHEMES:
        tab.open(written, 1280, scheme)
        inks = tab.value("[...new Set([...document.querySelectorAll('svg text')].map(t => getComputedStyle(t).fill))]")
        soft, ink = (tab.value(f"getComputedStyle(document.querySelector('{name}')).color") for name in ("dt", "body"))
        assert set(inks) <= {ink, soft}, scheme


def test_everything_scrollable_and_folded_is_reached_by_keyboard(tab: Tab, written: Path) -> None:
    """Summaries and tables that scroll take the focus, in the order of the page, and the focus is seen."""
    tab.open(written, 360)
    stops = tab.value("[...document.querySelectorAll('a, summary, .wide')].length")
    assert tab.value("[...document.querySelectorAll('a, summary, .wide')].every(e => e.tabIndex === 0)")
    assert stops > 30
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert tab.value("document.activeElement.className") == "skip"
    assert tab.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.value("document.querySelector('summary').focus()")
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
    assert tab.value("document.querySelector('details').open")


def test_on_paper_every_detail_is_open_and_no_picture_is_cut(tab: Tab, written: Path) -> None:
    """As laid out for print: what is folded is seen, and each picture fits a page and is kept together."""
    tab.open(written, 718, "dark", media="print")  # A4 less its margins, in CSS pixels
    folded = "[...document.querySelectorAll('details > :not(summary)')]"
    assert tab.value(f"{folded}.length") > 10
    assert tab.value(f"{folded}.every(e => e.checkVisibility() && e.getBoundingClientRect().height > 0)")
    pictures = "[...document.querySelectorAll('figure')]"
    assert tab.value(f"Math.max(...{pictures}.map(e => e.getBoundingClientRect().height))") < 1017  # 297 mm less 28
    assert tab.value(f"{pictures}.every(e => getComputedStyle(e).breakInside === 'avoid')")
    assert tab.value("document.documentElement.scrollWidth") <= 718
    assert tab.value("getComputedStyle(document.documentElement).backgroundColor") == f"rgb{PAPER['light']}"
    tab.call("Emulation.setEmulatedMedia", media="", features=[])
    printed = tab.pdf()
    assert printed.startswith(b"%PDF-")
    assert printed.count(b"/Type /Page") > 5


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_is_shown_and_never_run(tab: Tab, real_receipt: Path, tmp_path: Path, name: str) -> None:
    """Wherever a receipt holds free text."""
    content, statement = read(real_receipt)
    p = statement["predicate"]
    p["sampler"]["name"], p["sampler"]["version"] = name, name
    p["sentence"] = f"PASS: {name}"
    p["reasons"] = [name]
    p["nonClaims"] = [*p["nonClaims"], name]
    p["kernels"]["identity"] = {name: name, "gpu": name}
    p["kernels"]["bits"][0]["id"] = name
    p["environment"]["versions"] = {name: name}
    p["run"]["startedUtc"] = name
    p["tests"][0]["reason"], p["tests"][0]["alpha"] = name, "0"
    statement["subject"][0]["name"] = name
    path = tmp_path / "page.html"
    path.write_text(page(content, statement), "utf-8")
    for width in (360, 1280):
        tab.open(path, width)
        assert tab.requests() == []
        assert tab.complaints() == []
        assert tab.value("document.title") != "run"
        assert tab.value("document.scripts.length + document.images.length") == 0
        assert tab.value("document.documentElement.scrollWidth") <= width
        assert tab.value("getComputedStyle(document.body).display") == "block"
        assert name in tab.value("document.querySelector('h1').textContent")
        assert tab.value("getComputedStyle(document.querySelector('h1 > bdi')).unicodeBidi") == "isolate"


@pytest.mark.parametrize("kind", ["oracle", "exhaustive", "survey"])
def test_the_page_of_every_other_kind_fits_too(tab: Tab, tmp_path: Path, kind: str) -> None:
    """Those whose receipts are committed and need no law to be built again."""
    found = (read(path) for path in sorted((EVIDENCE / kind).glob("*.json"), reverse=True))
    content, statement = next(one for one in found if one[1]["predicate"]["kind"] == kind)
    path = tmp_path / "page.html"
    path.write_text(page(content, statement), "utf-8")
    for width in WIDTHS:
        tab.open(path, width)
        assert tab.requests() == []
        assert tab.complaints() == []
        assert tab.value("document.documentElement.scrollWidth") <= width


def test_the_page_of_a_probe_fits_too(tab: Tab, tmp_path: Path, probed: Any) -> None:
    """Of times that are given."""
    path = tmp_path / "page.html"
    path.write_text(page(b"", probed.statement()), "utf-8")
    for width in WIDTHS:
        tab.open(path, width)
        assert tab.requests() == []
        assert tab.complaints() == []
        assert tab.value("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["comparison", "history", "index"])
def test_a_page_of_several_receipts_fits_too(tab: Tab, tmp_path: Path, kind: str, scheme: str) -> None:
    """Of committed evidence, with a hostile name; on paper what is folded is open."""
    paths = sorted((EVIDENCE / "oracle").glob("*.json"))
    name = "".join(HOSTILE.values())
    rows = [replace(row, judged=f"{name} 1", resolution=0.1, nearest=5.0) for row in entries.entries_of(paths)]
    path = tmp_path / "page.html"
    if kind == "comparison":
        found = compare(open_receipt(paths[-2]), open_receipt(paths[-1]))
        cell = CellRow(id=name, batch=1, check=name, outcome="", mark=Mark.ADDED)
        found = replace(found, regressions=[name], cells=[cell])
        path.write_text(comparison.page(open_receipt(paths[-2]), open_receipt(paths[-1]), found), "utf-8")
    else:
        made = history.page(rows, {name: name}) if kind == "history" else index.page(rows, EVIDENCE, {}, tmp_path)
        path.write_text(made, "utf-8")
    for width in WIDTHS:
        tab.open(path, width, scheme)
        assert tab.requests() == []
        assert tab.complaints() == []
        assert tab.value("document.title") != "run"
        assert tab.value("document.scripts.length + document.images.length") == 0
        assert tab.value("document.documentElement.scrollWidth") <= width
    tab.open(path, 718, scheme, media="print")
    folded = "[...document.querySelectorAll('details > :not(summary)')]"
    assert tab.value(f"{folded}.every(e => e.getBoundingClientRect().height > 0)")
    assert tab.value("document.documentElement.scrollWidth") <= 718


def size(png: bytes) -> tuple[int, int]:
    """Width and height, from the header of a PNG."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height
