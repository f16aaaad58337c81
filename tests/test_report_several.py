"""Pages of several receipts: what became worse comes first, names are text, bad input is one line."""

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

import pytest
from tags import HOSTILE, addresses, changed, tags
from two_receipts import smallest, wrong_replacements

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.regression.compare import compare
from pp3.harness.regression.opened import open_receipt
from pp3.harness.report import comparison, entries, history, index, junit

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "receipts" / "evidence"
PAGE = (ROOT / "docs" / "reports.md").read_text("utf-8")
Statement = dict[str, Any]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where receipts are written, below a folder that a ledger lies in."""
    return tmp_path_factory.mktemp("several") / "receipts" / "evidence" / "qualify"


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], shelf: Path) -> Path:
    """A receipt that passes."""
    return receipt_of(smallest(), shelf, 1)


@pytest.fixture(scope="module")
def broken(receipt_of: Callable[..., Path], shelf: Path) -> Path:
    """The same plan under a sampler that takes a third of its replacements from the target instead of the residual."""
    with wrong_replacements():
        return receipt_of(smallest(), shelf, 2)


def compared(old: Path, new: Path) -> str:
    """The page of two receipts."""
    before, after = open_receipt(old), open_receipt(new)
    return comparison.page(before, after, compare(before, after))


@pytest.fixture(scope="module")
def html(old: Path, broken: Path) -> str:
    """The page of a pass and a failure."""
    return compared(old, broken)


# A comparison.


def test_what_became_worse_comes_before_pictures_and_tables(html: str) -> None:
    """Verdict, the two, what is not shown, what became worse, pictures, checks, cells, differences."""
    assert re.search(r'<h1 class="fail">.*REGRESSION</span> <bdi>the verdict was PASS and is FAIL', html)
    chapters = ["receipts", "not-shown", "worse", "pictures", "checks", "cells", "differs"]
    marks = ["<h1", *(f'<h2 id="{chapter}"' for chapter in chapters)]
    places = [html.index(mark) for mark in marks]
    assert places == sorted(places)
    assert "invalidated/depth-4/" in html[html.index('id="worse"') : html.index("<svg")]


def test_the_picture_shows_which_outcomes_moved(html: str, old: Path) -> None:
    """A cell that differs has marks beyond three standard deviations; a receipt beside itself has none."""
    before = open_receipt(old)
    same = compare(before, before)
    assert re.search(r"moves furthest: .* standard deviations\. Two-sample p = \S+, by Holm \S+: two laws\.", html)
    assert all("+0.0 standard deviations" in one.finding for one in comparison.pictures(before, before, same)[1:])
    own = comparison.page(before, before, same)
    assert "NO REGRESSION" in own
    assert "Nothing." in own[own.index('id="worse"') : own.index("<svg")]


def test_the_same_receipts_give_the_same_bytes(html: str, old: Path, broken: Path) -> None:
    rows = entries.entries_of([old, broken])
    assert compared(old, broken) == html
    assert history.page(rows, {}) == history.page(entries.entries_of([broken, old]), {})
    assert junit.document([junit.suite_of(old)]) == junit.document([junit.suite_of(old)])


def test_pages_ask_nothing_of_any_other_place(html: str, old: Path, broken: Path) -> None:
    """No script, no address outside the page, ids once; the policy forbids all of it too."""
    rows = entries.entries_of([old, broken])
    for page in (html, history.page(rows, {}), index.page(rows, old.parent, {}, old.parent)):
        found = tags(page)
        assert not {tag for tag, _ in found.seen} & {"script", "iframe", "img", "object", "embed", "form"}
        assert addresses(page) == []
        assert "default-src 'none'" in page
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', page)) <= set(ids)
        assert len(page) < 1_000_000


def test_an_altered_receipt_stands_for_nothing(old: Path, tmp_path: Path) -> None:
    path = tmp_path / old.name
    path.write_bytes(old.read_bytes().replace(b'"verdict":"PASS"', b'"verdict":"FAIL"'))
    row = entries.entry_of(path)
    page = index.page([row], tmp_path, {}, tmp_path)
    assert row.altered
    assert "altered: its bytes are not those of its name" in page
    assert "0 of which stand: none." in page


def test_hostile_names_are_text_everywhere(old: Path, broken: Path, tmp_path: Path) -> None:
    """Markup, a change of direction, controls, emoji, length: shown, and no page has a tag for it."""
    row = replace(entries.entry_of(old), judged=f"{HOSTILE} 1", device=HOSTILE)
    opened = open_receipt(old)
    statement = copy.deepcopy(opened.statement)
    statement["predicate"]["sampler"] |= {"name": HOSTILE, "version": HOSTILE}
    hostile = replace(opened, statement=statement)
    found = replace(compare(opened, open_receipt(broken)), regressions=[HOSTILE])
    pages = [
        history.page([row, row, row], {HOSTILE: HOSTILE}),
        index.page([row], old.parent, {HOSTILE: HOSTILE}, tmp_path),
        comparison.page(hostile, hostile, found),
    ]
    for page in pages:
        assert "<script" not in page
        assert HOSTILE[:25] in tags(page).text


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], Exit.USAGE, "nothing to report on"),
        (["OLD", "missing.json"], Exit.USAGE, "give the path of a receipt"),
        (["OLD", "NOTHING"], Exit.NEGATIVE, "not an in-toto statement"),
        (["OLD", "NEWER"], Exit.NEGATIVE, "use the pp3 that wrote it"),
        (["OLD", "ORACLE"], Exit.INCONCLUSIVE, "give two of one kind"),
        (["OLD", "ALTERED"], Exit.NEGATIVE, "NOT VERIFIED at name"),
        (["OLD", "NEW", "OLD"], Exit.USAGE, "give each once"),
        (["OLD", "EMPTY"], Exit.USAGE, "a folder among several sources"),
        (["EMPTY"], Exit.NOTHING_RAN, "no receipt lies under"),
        (["--history", "EMPTY"], Exit.NOTHING_RAN, "no receipt lies under"),
        (["--history", "missing"], Exit.USAGE, "no such folder"),
        (["OLD", "--history", "EMPTY"], Exit.USAGE, "not both"),
        (["OLD", "--out", "x.html", "--junit", "x.xml"], Exit.USAGE, "run the command twice"),
        (["--history", "SHELF", "--strict"], Exit.USAGE, "recompute nothing"),
        (["OLD", "NEW", "--out", "OLD"], Exit.USAGE, "exists already"),
        (["OLD", "NEW", "--out", "OLD/x.html"], Exit.USAGE, "is no folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_writes_nothing(
    arguments: list[str],
    code: Exit,
    said: str,
    old: Path,
    broken: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "nothing.json").write_text('{"a":1}', "utf-8")
    newer = canonical.decode(old.read_bytes())
    newer["predicateType"] = newer["predicateType"].replace("v1", "v9")
    (tmp_path / "newer.json").write_bytes(canonical.encode(newer))
    altered = tmp_path / "altered" / old.name
    altered.parent.mkdir()
    altered.write_bytes(old.read_bytes().replace(b'"verdict":"PASS"', b'"verdict":"FAIL"'))
    (tmp_path / "empty").mkdir()
    named = {
        "OLD": old,
        "NEW": broken,
        "NOTHING": tmp_path / "nothing.json",
        "NEWER": tmp_path / "newer.json",
        "ALTERED": altered,
        "EMPTY": tmp_path / "empty",
        "SHELF": old.parent,
        "ORACLE": max((EVIDENCE / "oracle").glob("*.json")),
    }
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    given = [str(named.get(word.partition("/")[0], word)) + "".join(word.partition("/")[1:]) for word in arguments]
    assert cli.run(["report", *given]) == code
    spoken = capsys.readouterr()
    assert spoken.err.count("\n") == 1
    assert said in spoken.err
    assert spoken.out == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_what_cannot_be_compared_is_a_page_and_an_exit_of_3(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one kind, and of other sources whose plan does not rebuild here: the page says why."""

    def of_others(statement: Statement) -> None:
        statement["subject"][0]["digest"]["sha256"] = "0" * 64
        statement["predicate"]["tests"][0]["g"] = "7"

    path = changed(old, tmp_path, of_others)
    out = tmp_path / "page.html"
    assert cli.run(["report", str(path), str(old), "--out", str(out)]) == Exit.INCONCLUSIVE
    assert "OLD does not verify here" in capsys.readouterr().err
    page = out.read_text("utf-8")
    assert "INCOMPARABLE" in page
    assert "Nothing can be said" in page


@pytest.mark.parametrize("line", re.findall(r"^pp3 report .*$", PAGE, flags=re.MULTILINE))
def test_the_commands_of_the_page_work(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand in docs/reports.md, in a checkout; files go elsewhere."""
    monkeypatch.chdir(ROOT)
    words = [name for word in line.split()[1:] for name in (sorted(glob(word)) if "*" in word else [word])]
    words[-1] = str(tmp_path / words[-1])
    assert cli.run(words) == Exit.OK
    assert Path(words[-1]).stat().st_size > 0
