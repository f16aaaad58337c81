"""JUnit XML of receipts: a case a check, names as text, and what does not verify as an error."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tags import HOSTILE
from two_receipts import smallest, wrong_replacements

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.report import junit

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "receipts" / "evidence"


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
