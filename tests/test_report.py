"""The page: one self-contained file, the same bytes for the same receipt, failures before everything else."""

import copy
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence.receipt import read
from pp3.harness.report import charts
from pp3.harness.report.render import page, write_page


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


def test_it_asks_nothing_of_any_other_place(html: str) -> None:
    """No scripts, no links out, no sources; the content policy forbids them too."""
    tags = Tags()
    tags.feed(html)
    assert not {tag for tag, _ in tags.seen} & {"script", "link", "iframe", "img", "object", "embed", "form"}
    references = [
        value for _, attributes in tags.seen for name, value in attributes.items() if name.endswith(("href", "src"))
    ]
    assert all(value and value.startswith("#") for value in references)
    assert "default-src 'none'" in html
    assert len(html) < 1_000_000


def test_ids_are_unique_and_every_reference_has_one(html: str) -> None:
    """Inlined charts share a page: a doubled id would point one chart's clip at another's."""
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', html)) <= set(ids)


def test_the_order_is_verdict_non_claims_failures_pictures_checks(
    html: str, receipt: tuple[bytes, dict[str, Any]]
) -> None:
    """People read from the top."""
    predicate = receipt[1]["predicate"]
    all_checks = f"All {len(predicate['tests'])} checks"
    marks = [predicate["sentence"][:40], predicate["nonClaims"][0], "<h2>Failures</h2>", "<svg", all_checks]
    places = [html.index(mark) for mark in marks]
    assert places == sorted(places)


def test_every_target_has_its_pictures_with_a_finding(html: str, receipt: tuple[bytes, dict[str, Any]]) -> None:
    """Two pictures a target and the ladder, each labelled for a reader who cannot see it."""
    targets = receipt[1]["predicate"]["plan"]["targets"]
    labels = re.findall(r'<svg role="img" aria-label="([^"]+)"', html)
    assert len(labels) == 2 * len(targets) + 1
    assert all(label.endswith(".") for label in labels)


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


def test_a_page_is_never_overwritten(receipt: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    """The way out is another file."""
    path = tmp_path / "page.html"
    path.write_text("mine", "utf-8")
    with pytest.raises(CampaignError, match=r"page\.html exists already; give another") as caught:
        write_page(*receipt, path)
    assert caught.value.exit_code is Exit.USAGE
    assert path.read_text("utf-8") == "mine"


def test_a_large_residual_is_marked() -> None:
    """A chart that could not show a fault would show nothing."""
    expected = np.full(8, 500.0)
    observed = expected.copy()
    observed[3] += 200
    assert charts.WARN.lower() in charts.law_chart("x", "label", observed, expected).lower()
    assert charts.WARN.lower() not in charts.law_chart("x", "label", expected, expected).lower()


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
