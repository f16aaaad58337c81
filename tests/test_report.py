"""The page: one self-contained file, the same bytes for the same receipt, failures before everything else."""

import copy
import json
import re
import subprocess
import sys
import time
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence.receipt import read
from pp3.harness.evidence.verify import verify
from pp3.harness.report.render import page, write_page

ROOT = Path(__file__).parent.parent
GOLDEN: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "golden" / "pages.json").read_text("utf-8"))
ACTIVE = {"script", "iframe", "img", "object", "embed", "form", "video", "audio", "base", "input", "button"}
SECONDS = 5.0  # of one processor, to verify and render the default campaign
BYTES = 1_000_000


class Tags(HTMLParser):
    """Collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.seen.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def receipt(real_receipt: Path) -> tuple[bytes, dict[str, Any]]:
    """Bytes and statement of a real receipt."""
    return read(real_receipt)


@pytest.fixture(scope="module")
def html(receipt: tuple[bytes, dict[str, Any]]) -> str:
    """The page of a real receipt."""
    return page(*receipt)


def test_the_same_receipt_gives_the_same_bytes(receipt: tuple[bytes, dict[str, Any]], html: str) -> None:
    """Nothing of the moment or the machine enters a page."""
    assert page(*receipt) == html


@pytest.mark.parametrize("name", GOLDEN["pages"], ids=lambda name: name.split("/")[2])
def test_the_bytes_of_a_fixed_receipt_are_these(name: str) -> None:
    """Golden, by hash. Pictures follow matplotlib's version, which constraints.txt pins; wording is held anywhere."""
    text = page(*read(ROOT / name))
    words = re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)
    assert sha256(words.encode()).hexdigest() == GOLDEN["words"][name]
    if version("matplotlib") == GOLDEN["versions"]["matplotlib"]:
        assert sha256(text.encode()).hexdigest() == GOLDEN["pages"][name]


def test_golden_versions_are_the_pinned_ones() -> None:
    """Where the pin moves, the golden bytes move with it."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split("\n") if "==" in line)
    assert GOLDEN["versions"] == {"matplotlib": pins["matplotlib"]}


def test_it_asks_nothing_of_any_other_place(html: str) -> None:
    """No scripts, no links out, no sources; the content policy forbids them too."""
    tags = Tags()
    tags.feed(html)
    assert not {tag for tag, _ in tags.seen} & ACTIVE
    references = [
        value for _, attributes in tags.seen for name, value in attributes.items() if name.endswith(("href", "src"))
    ]
    assert all(value and (value.startswith("#") or value == "data:,") for value in references)
    assert not [name for _, attributes in tags.seen for name in attributes if name.startswith("on")]
    assert "default-src 'none'" in html
    assert "http://" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "@import" not in html


def test_a_default_campaign_is_small_and_quick(
    real_receipt: Path, receipt: tuple[bytes, dict[str, Any]], html: str
) -> None:
    """Under 1 MB and 5 s of one processor, its verification included."""
    assert len(html.encode()) < BYTES
    started = time.process_time()
    verify(real_receipt, receipt[0])
    page(*receipt)
    assert time.process_time() - started < SECONDS


def test_ids_are_unique_and_every_reference_has_one(html: str) -> None:
    """Inlined charts share a page: a doubled id would point one chart's clip at another's."""
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', html)) <= set(ids)


def test_the_order_is_verdict_who_non_claims_failures_and_all_else(
    html: str, receipt: tuple[bytes, dict[str, Any]]
) -> None:
    """People read from the top."""
    predicate = receipt[1]["predicate"]
    sentence = predicate["sentence"].removeprefix(f"{predicate['verdict']}: ")[:40]
    heads = ('<h2 id="who">', '<h2 id="not-shown">', predicate["nonClaims"][0], '<h2 id="failures">')
    marks = ["<h1", sentence, *heads, "<svg", f"All {len(predicate['tests'])} checks"]
    places = [html.index(mark) for mark in marks]
    assert places == sorted(places)


def test_every_picture_has_a_finding_a_label_and_its_numbers(html: str, receipt: tuple[bytes, dict[str, Any]]) -> None:
    """Two pictures a target and three of all checks, each for a reader who cannot see it."""
    pictures = re.findall(r'<div class="picture">.*?</details>', html, re.DOTALL)
    assert len(pictures) == 2 * len(receipt[1]["predicate"]["plan"]["targets"]) + 4
    for picture in pictures:
        label = re.search(r'<svg role="img" aria-label="([^"]+)"', picture)
        caption = re.search(r"<figcaption><bdi>(.+?)</bdi>", picture, re.DOTALL)
        assert label is not None
        assert caption is not None
        assert caption[1].endswith(".")
        assert unescape(caption[1]) in unescape(label[1])
        assert picture.count("<tr>") > 1


def test_what_could_hide_is_said_among_what_is_not_shown(html: str, receipt: tuple[bytes, dict[str, Any]]) -> None:
    """The smallest error that is seen, and the checks that decide nothing, beside the fixed non-claims."""
    predicate = receipt[1]["predicate"]
    said = unescape(html[html.index('<h2 id="not-shown">') : html.index('<h2 id="failures">')])
    open_tests = sum(test["outcome"] == "unresolved" for test in predicate["tests"])
    assert f"An error below {predicate['sees']['token']} in total variation" in said
    assert f"{open_tests:,} of {len(predicate['tests']):,} checks decide nothing" in said
    for claim in predicate["nonClaims"]:
        assert claim in said


def test_a_failure_is_named_before_the_pictures(receipt: tuple[bytes, dict[str, Any]]) -> None:
    """Reasons and forbidden outcomes of a failed receipt come first, and markup in names is text."""
    content, original = receipt
    statement = copy.deepcopy(original)
    predicate = statement["predicate"]
    predicate["reasons"] = ["<b>token</b>: 3 outcomes of zero probability"]
    predicate["strays"] = [{"batch": 1, "cell": "sparse-tail/x", "count": 3, "outcome": 7}]
    text = page(content, statement)
    assert "&lt;b&gt;token&lt;/b&gt;: 3 outcomes" in text
    assert text.index("&lt;b&gt;token") < text.index("<svg")


def test_timings_are_drawn_where_there_are_any(receipt: tuple[bytes, dict[str, Any]]) -> None:
    """And said to decide nothing; a receipt without them has no such chapter."""
    content, original = receipt
    statement = copy.deepcopy(original)
    statement["predicate"]["timings"] = []
    assert "Timings" not in page(content, statement)
    rows = [("sparse-tail/depth-4/rows-4/round", 9_000), ("launch-floor", 2_000)]
    statement["predicate"]["timings"] = [
        {"id": id, "unit": "ns", "samples": [base + 10 * k for k in range(15)]} for id, base in rows
    ]
    text = page(content, statement)
    assert "Timings, which decide nothing" in text
    assert "the launch floor is 2.07 us, so the fastest takes 4.4 times that" in text


def test_a_page_is_never_overwritten(receipt: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    """The way out is another file."""
    path = tmp_path / "page.html"
    path.write_text("mine", "utf-8")
    with pytest.raises(CampaignError, match=r"page\.html exists already; give another") as caught:
        write_page(*receipt, path)
    assert caught.value.exit_code is Exit.USAGE
    assert path.read_text("utf-8") == "mine"


def test_without_jinja2_the_command_says_what_to_install(real_receipt: Path, tmp_path: Path) -> None:
    """Exit 69, one line, no page."""
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from pp3.harness import cli\n"
        "sys.exit(cli.run(['report', sys.argv[1], '--out', sys.argv[2]]))"
    )
    out = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(real_receipt), str(out)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == Exit.UNAVAILABLE
    assert done.stderr == "pp3: error: jinja2 is not installed, and a page needs it: pip install pp3[report]\n"
    assert done.stdout == ""
    assert not out.exists()
