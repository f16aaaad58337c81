"""Pages of several receipts, and JUnit XML: what became worse comes first, names are text, bad input is one line."""

import copy
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from glob import glob
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pp3.harness import canonical, cli
from pp3.harness.campaign import of_document
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt
from pp3.harness.evidence.ledger import Record, Superseding, append
from pp3.harness.regression.compare import compare
from pp3.harness.regression.opened import open_receipt
from pp3.harness.report import comparison, entries, history, index, junit
from pp3.kernels import reference

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "receipts" / "evidence"
PAGE = (ROOT / "docs" / "reports.md").read_text("utf-8")
SMALL = {"targets": ["invalidated"], "requests": 20_000, "paired": 64, "batch_sizes": [1], "depths": [4]}
HOSTILE = "<script>alert(1)</script> &amp; \"'\u202eleft\u0000\u0007\U0001f600" + "x" * 500
Statement = dict[str, Any]


class Tags(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


def tags(html: str) -> Tags:
    """A page, read."""
    found = Tags()
    found.feed(html)
    return found


def addresses(html: str) -> list[str]:
    """Every address of a page but those within it and its empty icon."""
    seen = [pair for _, attributes in tags(html).seen for pair in attributes.items()]
    found = [value or "" for key, value in seen if key in ("href", "src")]
    return [address for address in found if not address.startswith("#") and address != "data:,"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where receipts are written, below a folder that a ledger lies in."""
    return tmp_path_factory.mktemp("several") / "receipts" / "evidence" / "qualify"


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], shelf: Path) -> Path:
    """A receipt that passes."""
    return receipt_of(of_document(SMALL, "a test"), shelf, 1)


@pytest.fixture(scope="module")
def broken(receipt_of: Callable[..., Path], shelf: Path) -> Path:
    """The same plan under a sampler that takes a third of its replacements from the target instead of the residual."""
    real = reference._emit

    def emit(rows: Any, row: Any, support: Any, tickets: Any, rejected: Any, w64: Any) -> Any:
        return real(rows, row, support, tickets, rejected & (w64[:, 3] % 3 > 0), w64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "_emit", emit)
        return receipt_of(of_document(SMALL, "a test"), shelf, 2)


def compared(old: Path, new: Path) -> str:
    """The page of two receipts."""
    before, after = open_receipt(old), open_receipt(new)
    return comparison.page(before, after, compare(before, after))


@pytest.fixture(scope="module")
def html(old: Path, broken: Path) -> str:
    """The page of a pass and a failure."""
    return compared(old, broken)


def changed(path: Path, folder: Path, change: Callable[[Statement], object]) -> Path:
    """A receipt with something else in it, under its own name."""
    statement: Statement = canonical.decode(path.read_bytes())
    change(statement)
    return receipt.write(statement, folder)


def measured_at(moment: str) -> Callable[[Statement], object]:
    """A change of the moment."""
    return lambda statement: statement["predicate"]["run"].update(startedUtc=moment)


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


# A history and an index.


def test_superseded_ones_are_hollow_by_the_ledger(old: Path, broken: Path, tmp_path: Path) -> None:
    """And a line is broken where the environment changes."""
    folder = tmp_path / "receipts" / "evidence" / "qualify"
    first = changed(old, folder, measured_at("2026-01-01T00:00:00Z"))
    last = changed(broken, folder, measured_at("2026-01-03T00:00:00Z"))

    def of_another(statement: Statement) -> None:
        measured_at("2026-01-02T00:00:00Z")(statement)
        statement["predicate"]["environment"]["versions"]["numpy"] = "1.0"

    middle = changed(old, folder, of_another)
    digests = [path.stem.rpartition("-")[2] for path in (first, last)]
    records = [
        Record(sha256=digest, name=f"evidence/qualify/{path.name}", verdict="PASS")
        for digest, path in zip(digests, (first, last), strict=True)
    ]
    alone = history.page(entries.entries_of([first, middle, last]), {})
    assert "hollow: superseded" not in alone
    append(tmp_path / "receipts" / "LEDGER", records, [Superseding(sha256=digests[0], by=digests[1], reason="a test")])
    rows = entries.entries_of([last, middle, first])
    assert [row.path for row in rows] == [first, middle, last]
    assert [row.superseded for row in rows] == [digests[1], "", ""]
    page = history.page(rows, {})
    assert f"superseded by {digests[1][:12]}" in page
    assert "hollow: superseded" in page
    assert page.count("<small>the environment changes") == 2
    assert "Lines are broken where the environment changes: 2 times." in page
    assert "the last that stands, of 2026-01-03T00:00:00Z, says FAIL" in page


def test_an_index_links_only_pages_that_lie_below_it(old: Path, broken: Path, tmp_path: Path) -> None:
    """By an address relative to the index; none of a page that is not there, or not below."""
    folder = tmp_path / "with space"
    folder.mkdir()
    for path in (old, broken):
        shutil.copy(path, folder)
    here = folder / old.name
    here.with_suffix(".html").write_text("page", "utf-8")
    assert cli.run(["report", str(folder)]) == Exit.OK
    page = (folder / "index.html").read_text("utf-8")
    assert addresses(page) == [here.with_suffix(".html").name]
    assert cli.run(["report", str(folder), "--out", str(tmp_path / "above.html")]) == Exit.OK
    assert addresses((tmp_path / "above.html").read_text("utf-8")) == [f"with%20space/{here.stem}.html"]
    (tmp_path / "other").mkdir()
    assert cli.run(["report", str(folder), "--out", str(tmp_path / "other" / "aside.html")]) == Exit.OK
    assert addresses((tmp_path / "other" / "aside.html").read_text("utf-8")) == []
    assert cli.run(["report", str(folder)]) == Exit.USAGE  # nothing is overwritten


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


# JUnit.


def follows_the_schema(text: str) -> ET.Element:
    """The document, held against the rules of Ant's schema (JUnit.xsd of windyroad/JUnit-Schema), written out here."""
    root = ET.fromstring(text)
    assert (root.tag, root.attrib) == ("testsuites", {})
    for number, suite in enumerate(root):
        assert suite.tag == "testsuite"
        needed = {"id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "time"}
        assert suite.attrib.keys() - {"skipped"} == needed
        assert suite.attrib["id"] == str(number)
        assert suite.attrib["name"].strip()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        datetime.fromisoformat(suite.attrib["timestamp"])
        assert [child.tag for child in suite if child.tag != "testcase"] == ["properties", "system-out", "system-err"]
        assert [child.tag for child in suite][1:-2] == ["testcase"] * (len(suite) - 3)
        assert all(one.tag == "property" and one.attrib.keys() == {"name", "value"} for one in suite[0])
        cases = suite.findall("testcase")
        for case in cases:
            assert case.attrib.keys() == {"classname", "name", "time"}
            assert case.attrib["name"].strip()
            float(case.attrib["time"])
            assert [child.tag for child in case] in ([], ["failure"], ["error"], ["skipped"])
            assert all(child.attrib.keys() == {"message", "type"} for child in case if child.tag != "skipped")
        counted = {tag: len(suite.findall(f"testcase/{tag}")) for tag in ("failure", "error", "skipped")}
        said = [suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")]
        assert said == [str(count) for count in (len(cases), *counted.values())]
    return root


def test_each_check_is_a_case(old: Path, broken: Path, tmp_path: Path) -> None:
    """Those that failed fail, with their reasons; the verdict and the verification are cases too."""
    out = tmp_path / "junit.xml"
    assert cli.run(["report", str(old), str(broken), "--junit", str(out)]) == Exit.OK
    good, bad = follows_the_schema(out.read_text("utf-8"))
    assert good.attrib["failures"] == "0"
    p = canonical.decode(broken.read_bytes())["predicate"]
    failed = {test["id"] for test in p["tests"] if test["outcome"] == "fail"}
    found = {case.attrib["name"] for case in bad.findall("testcase") if case.find("failure") is not None}
    assert found == {*failed, "verdict"}
    cases = {case.attrib["name"] for case in bad.findall("testcase")}
    assert {test["id"] for test in p["tests"]} | {"verifies", "verdict", "propose.json"} <= cases
    [said] = [case for case in bad.findall("testcase") if case.attrib["name"] == "verdict"]
    assert said[0].attrib == {"message": p["sentence"], "type": "FAIL"}


@pytest.mark.parametrize("kind", ["oracle", "exhaustive", "survey"])
def test_every_kind_of_receipt_is_exported(kind: str) -> None:
    """Of the committed evidence; a survey's samplers are its cases."""
    path = max((EVIDENCE / kind).glob("*.json"), key=lambda path: (kind_of(path) == kind, path.name))
    root = follows_the_schema(junit.document([junit.suite_of(path)]))
    cases = root[0].findall("testcase")
    assert len(cases) > 2
    if kind == "survey":
        p = canonical.decode(path.read_bytes())["predicate"]
        assert {row["name"] for row in p["samplers"]} <= {case.attrib["name"] for case in cases}


def kind_of(path: Path) -> str:
    """What kind a receipt is of."""
    return str(canonical.decode(path.read_bytes())["predicate"]["kind"])


def test_what_xml_cannot_hold_is_left_out(old: Path) -> None:
    """Control characters go, markup and emoji stay as text."""
    suite = junit.suite_of(old)
    case = junit.Case(group="g", name=HOSTILE, result=junit.Result.FAILED, type=HOSTILE, message=HOSTILE)
    text = junit.document([replace(suite, name=HOSTILE, cases=[case], sentence=HOSTILE)])
    root = follows_the_schema(text)
    clean = HOSTILE.replace("\u0000", "").replace("\u0007", "")
    assert root.find("testsuite/testcase/failure").text == clean  # type: ignore[union-attr]  # the schema has it
    assert root[0].attrib["name"] == clean
    assert "<script" not in text


def test_a_receipt_that_does_not_verify_is_an_error(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, and the case says where; nothing is written with --strict."""
    path = tmp_path / old.name
    path.write_bytes(old.read_bytes().replace(b'"verdict":"PASS"', b'"verdict":"FAIL"'))
    out = tmp_path / "junit.xml"
    assert cli.run(["report", str(path), "--junit", str(out), "--strict"]) == Exit.NEGATIVE
    assert not out.exists()
    assert cli.run(["report", str(path), "--junit", str(out)]) == Exit.NEGATIVE
    root = follows_the_schema(out.read_text("utf-8"))
    assert root.find("testsuite/testcase/error").attrib["message"].startswith("NOT VERIFIED at name")  # type: ignore[union-attr]  # likewise
    assert "NOT VERIFIED at name" in capsys.readouterr().err


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


def test_a_history_of_a_folder_takes_a_copy_once(
    old: Path, broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says which it left out, there and on the page."""
    for path in (old, broken):
        shutil.copy(path, tmp_path)
    (tmp_path / "again").mkdir()
    shutil.copy(old, tmp_path / "again")
    assert cli.run(["report", "--history", str(tmp_path)]) == Exit.OK
    again = tmp_path / "again" / old.name
    said = f"pp3: left out: {again}: it is a copy of {tmp_path / old.name}, which is taken once\n"
    assert capsys.readouterr().err == said
    text = tags((tmp_path / "history.html").read_text("utf-8")).text
    assert f"again/{old.name}" in text
    assert f"it is a copy of {old.name}, which is taken once" in text


def test_a_folder_of_other_files_is_indexed_with_what_was_left_out(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(old, tmp_path)
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}), "utf-8")
    assert cli.run(["report", str(tmp_path)]) == Exit.OK
    assert "left out" in capsys.readouterr().err
    assert "other.json" in tags((tmp_path / "index.html").read_text("utf-8")).text


@pytest.mark.parametrize("line", re.findall(r"^pp3 report .*$", PAGE, flags=re.MULTILINE))
def test_the_commands_of_the_page_work(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand in docs/reports.md, in a checkout; files go elsewhere."""
    monkeypatch.chdir(ROOT)
    words = [name for word in line.split()[1:] for name in (sorted(glob(word)) if "*" in word else [word])]
    words[-1] = str(tmp_path / words[-1])
    assert cli.run(words) == Exit.OK
    assert Path(words[-1]).stat().st_size > 0
