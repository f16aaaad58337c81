"""The receipt of a probe: every figure follows from its samples, nothing is left out in silence, the page shows it."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit, ReceiptError
from pp3.harness.evidence import provenance, receipt
from pp3.harness.evidence.verify import Verified, verify
from pp3.harness.probe import tables
from pp3.harness.probe.figures import EXCLUSIONS
from pp3.harness.probe.plan import FLOOR, OURS, Mode, cases
from pp3.harness.regression.compare import compare
from pp3.harness.regression.opened import open_receipt
from pp3.harness.report.render import page

Statement = dict[str, Any]


@pytest.fixture(scope="module")
def statement(probed: Any) -> Statement:
    """Of the quick probe; copy before changing."""
    made: Statement = probed.statement()
    return made


@pytest.fixture(scope="module")
def path(statement: Statement, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its receipt."""
    return receipt.write(statement, tmp_path_factory.mktemp("probe"))


def judged(statement: Statement, folder: Path) -> Verified:
    """Write it and verify it."""
    written = receipt.write(statement, folder)
    return verify(written, written.read_bytes())


def test_it_verifies_and_says_what_was_recomputed(path: Path) -> None:
    """The verdict is no PASS: a probe judges no law."""
    found = verify(path, path.read_bytes())
    assert found.ok
    assert found.verdict == "PROBED"
    names = [step.name for step in found.steps if step.outcome == "ok"]
    assert names[3:9] == ["plan", "kernels", "samples", "recompute figures", "verdict", "non-claims"]


def first(statement: Statement) -> dict[str, Any]:
    """The timings of our first case."""
    return {timing["id"]: timing for timing in statement["predicate"]["cases"][0]["timings"]}


def a_sample(statement: Statement) -> None:
    """Halve ours."""
    first(statement)[OURS]["samples"] = [one // 2 for one in first(statement)[OURS]["samples"]]


def a_case_less(statement: Statement) -> None:
    """Drop a case and its figures."""
    for key in ("cases", "figures"):
        statement["predicate"][key].pop()


def a_peer_less(statement: Statement) -> None:
    """Drop a peer of one case, and its line."""
    statement["predicate"]["cases"][0]["timings"].pop()
    statement["predicate"]["figures"][0]["lines"].pop()


def a_red_bit(statement: Statement) -> None:
    """A row that differs, with the times kept."""
    statement["predicate"]["kernels"]["bits"][0]["mismatches"] = 1


FORGED: dict[str, tuple[Callable[[Statement], object], str]] = {
    "ours halved, the figures kept": (a_sample, "recompute figures"),
    "a case left out": (a_case_less, "samples"),
    "a peer left out in silence": (a_peer_less, "samples"),
    "a bit that differs, with times": (a_red_bit, "samples"),
    "a sample left out": (lambda s: first(s)[OURS]["samples"].pop(), "samples"),
    "a peer of more rounds than the case": (lambda s: first(s)["torch-topk"].update(rounds=11), "samples"),
    "ours of one round": (lambda s: first(s)[OURS].update(rounds=1), "samples"),
    "ours timed without a graph": (lambda s: first(s)[OURS].update(method="events", launches=0), "samples"),
    "a floor of fewer launches": (lambda s: first(s)[FLOOR].update(launches=1), "samples"),
    "a group of bits left out": (lambda s: s["predicate"]["kernels"]["bits"].pop(), "kernels"),
    "fewer rows of bits": (lambda s: s["predicate"]["kernels"]["bits"][0].update(rows=1), "kernels"),
    "fewer repetitions": (lambda s: s["predicate"]["plan"].update(repetitions=1), "plan"),
    "an exclusion left out": (lambda s: s["predicate"]["exclusions"].pop(), "plan"),
    "a slower copy": (lambda s: s["predicate"]["bandwidth"].update(bytes=1), "recompute figures"),
    "another ratio": (lambda s: s["predicate"]["figures"][0]["lines"][3].update(overOurs="9/1"), "recompute figures"),
    "another sentence": (lambda s: s["predicate"].update(sentence="PROBED: the fastest of all."), "verdict"),
    "a verdict that is none": (lambda s: s["predicate"].update(verdict="PASS"), "verdict"),
    "a non-claim left out": (lambda s: s["predicate"]["nonClaims"].pop(), "non-claims"),
}


@pytest.mark.parametrize(("forge", "step"), FORGED.values(), ids=FORGED)
def test_what_does_not_follow_is_refused(
    forge: Callable[[Statement], object], step: str, statement: Statement, tmp_path: Path
) -> None:
    """By the step that holds it."""
    forged = copy.deepcopy(statement)
    forge(forged)
    found = judged(forged, tmp_path)
    assert found.failed is not None
    assert found.failed.name == step


def test_a_bit_that_differs_makes_fail_without_times(probed: Any, tmp_path: Path) -> None:
    """And the page and the tables say so."""
    seen = probed.seen()
    seen["bits"][2] |= {"mismatches": 3, "first": "row 1"}
    red = probed.statement(bits=seen["bits"], cases=[])
    found = judged(red, tmp_path)
    assert (found.ok, found.verdict) == (True, "FAIL")
    assert red["predicate"]["figures"] == []
    assert len(red["predicate"]["reasons"]) == 1
    html = page(b"", red)
    assert "row 1" in html
    assert "<svg" not in html
    assert "## Selector" not in tables.page(red["predicate"])


def test_a_slow_peer_may_be_timed_round_by_round(probed: Any, tmp_path: Path) -> None:
    """Its median is of one round, and the ratio too."""
    seen = probed.seen()
    slow = seen["cases"][0]["timings"][-1]
    slow |= {"rounds": 1, "samples": [one // 10 for one in slow["samples"]]}
    made = probed.statement(cases=seen["cases"])
    assert judged(made, tmp_path).ok
    before, after = (one["predicate"]["figures"][0]["lines"][-1] for one in (probed.statement(), made))
    assert abs(eval_ratio(before["overOurs"]) - eval_ratio(after["overOurs"])) < 0.01


def eval_ratio(text: str) -> float:
    """A rational as a receipt spells it."""
    numerator, denominator = map(int, text.split("/"))
    return numerator / denominator


def test_the_page_shows_every_case_and_who_was_absent(path: Path, statement: Statement) -> None:
    """Pictures, exclusions, and the same bytes twice."""
    content = path.read_bytes()
    html = page(content, statement)
    assert html == page(content, statement)
    assert html.count("<svg") == 5  # the selector hot and cold, kinds of rows, the verifier's two vocabularies
    for case in cases(Mode.QUICK):
        assert case.id in html
    for said in (*EXCLUSIONS, *statement["predicate"]["absent"]):
        assert said.replace("'", "&#39;") in html
    assert "No speedup is claimed." in html


def test_the_full_page_has_a_picture_a_vocabulary(probed: Any) -> None:
    """Under a megabyte."""
    full = probed.statement(Mode.FULL)
    html = page(b"", full)
    for vocab in ("129,280", "151,936", "163,840"):
        assert f"vocabulary {vocab}" in html
    assert len(html) < 1_000_000


def test_the_markdown_is_of_a_receipt_that_verifies(
    path: Path, statement: Statement, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another is refused, and so is what would measure too."""
    assert cli.run(["probe", "--markdown", str(path)]) == Exit.OK
    assert capsys.readouterr().out == tables.page(statement["predicate"])
    forged = copy.deepcopy(statement)
    a_sample(forged)
    assert cli.run(["probe", "--markdown", str(receipt.write(forged, tmp_path))]) == Exit.NEGATIVE
    assert "NOT VERIFIED at recompute figures" in capsys.readouterr().err
    assert cli.run(["probe", "--markdown", str(path), "--quick"]) == Exit.USAGE
    assert cli.run(["probe", "--markdown", str(tmp_path / "nowhere.json")]) == Exit.USAGE


def test_the_terminal_s_lines_fit_eighty_columns(probed: Any) -> None:
    """A line a case, of the full probe."""
    lines = tables.terminal_lines(probed.statement(Mode.FULL)["predicate"])
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith(("V", "verify V")) for line in lines) == len(cases(Mode.FULL))


def test_two_probes_are_not_compared(path: Path) -> None:
    """Times of two runs say nothing of each other."""
    opened = open_receipt(path)
    with pytest.raises(ReceiptError, match="within one run alone") as refused:
        compare(opened, opened)
    assert refused.value.exit_code == Exit.INCONCLUSIVE


def test_the_probe_binds_its_contestants() -> None:
    """The kernels, the peers' loaders, and what works out the figures."""
    bound = {subject["name"] for subject in provenance.sources("probe")}
    assert {
        "pp3/harness/image/load.py",
        "pp3/harness/probe/figures.py",
        "pp3/harness/probe/peers.py",
        "pp3/harness/probe/timing.py",
        "pp3/harness/samplers/sglang_file.py",
        "pp3/kernels/proposal.py",
        "pp3/kernels/verifier.py",
    } <= bound
    assert not any(name.startswith("pp3/harness/evidence/") for name in bound)
