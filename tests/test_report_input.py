"""What `pp3 report` does with what it should not get: one clear line, the right exit code, no page that misleads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from altered import Statement, written

from pp3.harness import cli
from pp3.harness.errors import Exit
from pp3.harness.evidence.receipt import read
from pp3.harness.evidence.verified import Step, Verified
from pp3.harness.report.alarm import of_verified
from pp3.harness.report.render import page
from pp3.harness.report.template import fill

Predicate = dict[str, Any]
NO_RECEIPTS: dict[str, tuple[bytes, str]] = {
    "text": (b"hello\n", "not JSON at character 0"),
    "bytes": (b"\xff\xfe\x00\x01", "not UTF-8 at byte 0"),
    "empty": (b"", "not JSON at character 0"),
    "another document": (b'{"x":1}', "not an in-toto statement"),
    "a page": (b"<!DOCTYPE html>\n<html></html>", "not JSON at character 0"),
}


def sealed(statement: Statement, folder: Path) -> Path:
    """A statement under its own digest, as a forger would write it."""
    name, content = written(statement)
    path = folder / name
    path.write_bytes(content)
    return path


def more(p: Predicate) -> None:
    """One event more than the plan has."""
    p["cells"][0]["counts"][0] += 1


def better(p: Predicate) -> None:
    """A p-value that does not follow."""
    p["tests"][0]["p"] = "0.5"


def other(p: Predicate) -> None:
    """Another verdict than what follows."""
    p["verdict"], p["sentence"] = "PASS", "PASS: all is well. Self-attested."


def no_plan(p: Predicate) -> None:
    """Nothing to build the laws from."""
    p["plan"] = {}


def no_tests(p: Predicate) -> None:
    """Rows without a field."""
    p["tests"] = [{}]


def odd(p: Predicate) -> None:
    """Values of other types where the shape leaves them open."""
    p["environment"], p["tests"] = {"versions": 3}, [{"alpha": "much", "id": 7, "outcome": ["fail"]}]


def no_run(p: Predicate) -> None:
    """A number that is none."""
    p["tests"][0]["alpha"] = "nan"
    p["sees"] = {}


CHANGES = [more, better, other, no_plan, no_tests, odd, no_run]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_receipt_that_does_not_verify_has_a_red_banner(
    change: Callable[[Predicate], None],
    real_receipt: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Above everything, with the step that fails; its own verdict is no more than what it says. Exit 1."""
    _, statement = read(real_receipt)
    change(statement["predicate"])
    path = sealed(statement, tmp_path)
    assert cli.run(["report", str(path)]) == Exit.NEGATIVE
    printed = capsys.readouterr()
    html = path.with_suffix(".html").read_text("utf-8")
    assert printed.out == f"{path.with_suffix('.html')}\n"
    assert printed.err.startswith(f"pp3: {path}: This receipt does not verify. At ")
    assert printed.err.endswith("The page says so.\n")
    assert printed.err.count("\n") == 1
    banner = html.index('<div class="alarm fail" role="alert"><strong>This receipt does not verify.</strong>')
    assert banner < html.index("<h1")
    assert "NOT VERIFIED</span> It says: <bdi>" in html
    assert '<span class="badge pass"' not in html
    for claim in statement["predicate"]["nonClaims"]:
        assert claim in html


@pytest.mark.parametrize("change", CHANGES[:3], ids=lambda change: change.__name__)
def test_strict_refuses_it(
    change: Callable[[Predicate], None],
    real_receipt: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line with the same reason, exit 1, and no page."""
    _, statement = read(real_receipt)
    change(statement["predicate"])
    path = sealed(statement, tmp_path)
    assert cli.run(["report", str(path), "--strict"]) == Exit.NEGATIVE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pp3: error: {path}: This receipt does not verify. At ")
    assert printed.err.endswith("No page was written, as --strict asks.\n")
    assert list(tmp_path.iterdir()) == [path]


def test_a_renamed_receipt_is_no_other(real_receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its digest is in its name, and the page says that they differ; what it holds is drawn."""
    path = tmp_path / "mine.json"
    path.write_bytes(real_receipt.read_bytes())
    assert cli.run(["report", str(path)]) == Exit.NEGATIVE
    assert "At name: the bytes hash to" in capsys.readouterr().err
    html = path.with_suffix(".html").read_text("utf-8")
    assert "the name says mine" in html
    assert html.count("<svg") > 5


def test_one_that_verifies_has_none(real_receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Strict or not: the same page, exit 0, nothing on stderr."""
    for name, options in (("a.html", []), ("b.html", ["--strict"])):
        assert cli.run(["report", str(real_receipt), "--out", str(tmp_path / name), *options]) == Exit.OK
    printed = capsys.readouterr()
    assert printed.err == ""
    assert (
        (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes() == page(*read(real_receipt)).encode()
    )
    assert 'role="alert"' not in (tmp_path / "a.html").read_text("utf-8")


@pytest.mark.parametrize(("content", "said"), NO_RECEIPTS.values(), ids=NO_RECEIPTS)
@pytest.mark.parametrize("options", [[], ["--strict"]], ids=["", "strict"])
def test_a_file_that_is_no_receipt_is_refused(
    content: bytes, said: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, one line with the file's name, no page."""
    path = tmp_path / "file.json"
    path.write_bytes(content)
    refused(["report", str(path), *options], Exit.NEGATIVE, f"{path}: {said}", capsys)
    assert list(tmp_path.iterdir()) == [path]


def test_a_newer_predicate_is_refused(real_receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else of it is read: what it means is not known here."""
    _, statement = read(real_receipt)
    statement["predicateType"] = "urn:pp3:receipt:v2"
    path = sealed(statement, tmp_path)
    refused(["report", str(path)], Exit.NEGATIVE, f"{path}: predicate 'urn:pp3:receipt:v2'", capsys)


def test_a_truncated_receipt_is_refused(real_receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a file is none."""
    path = tmp_path / real_receipt.name
    path.write_bytes(real_receipt.read_bytes()[:5_000])
    refused(["report", str(path)], Exit.NEGATIVE, f"{path}: not JSON at character 5000", capsys)


def test_what_is_not_there_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for every command."""
    path = tmp_path / "nothing.json"
    refused(["report", str(path)], Exit.USAGE, f"{path}: No such file or directory; give the path", capsys)


def test_an_empty_folder_has_no_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says what to give."""
    refused(["report", str(tmp_path)], Exit.NOTHING_RAN, f"no receipt lies under {tmp_path}", capsys)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"faults":[]}', "no fault in it"),
        (b'{"faults":[{"id":"x"}]}', "not what pp3 faults --json prints: Object missing required field"),
        (b'{"faults": 3}', "not what pp3 faults --json prints"),
        (b'{"faults":[', "not what pp3 faults --json prints: Input data was truncated"),
    ],
    ids=["none", "fields", "type", "truncated"],
)
def test_a_matrix_that_is_none_is_refused(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, one line, no page."""
    path = tmp_path / "faults.json"
    path.write_bytes(content)
    refused(["report", str(path)], Exit.NEGATIVE, f"{path}: {said}", capsys)


def test_a_superseded_receipt_is_history_and_no_alarm() -> None:
    """A note in another colour and word: its bytes are those recorded, and the page says no more."""
    steps = [Step(name="bytes", outcome="ok", detail="canonical")]
    found = Verified(sha256="0" * 64, verdict="PASS", steps=steps, current="unchecked", by="f" * 64)
    alarm = of_verified(found)
    assert alarm is not None
    assert (alarm.superseded, alarm.word, alarm.tone) == (True, "SUPERSEDED", "other")
    assert "f" * 64 in alarm.why
    failed = Verified(
        sha256="0" * 64,
        verdict="unknown",
        steps=[*steps, Step(name="name", outcome="FAIL", detail="other")],
        current="unchecked",
        by="f" * 64,
    )
    worse = of_verified(failed)
    assert worse is not None
    assert (worse.superseded, worse.word) == (False, "NOT VERIFIED")


def test_a_template_with_an_undefined_name_is_an_error() -> None:
    """Never an empty place on a page that people believe."""
    with pytest.raises(Exception, match="'p' is undefined"):
        fill("campaign.html", {"alarm": None})


def refused(arguments: list[str], code: Exit, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr that begins so, nothing on stdout."""
    assert cli.run(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pp3: error: {said}")
    assert printed.err.count("\n") == 1
    assert json.dumps(printed.err).isascii()
