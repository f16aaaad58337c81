"""What verify says of a small receipt beside others: a ledger, other sources, what is expected of it, a replay."""

import copy
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from built import Statement
from decided import (
    STAMP,
    ZEROS,
    Change,
    more,
    name_of,
    said,
    sealed,
    small_of,
)

from pp3.harness import canonical, cli
from pp3.harness.campaign import Campaign
from pp3.harness.errors import Exit
from pp3.harness.evidence import provenance, receipt
from pp3.harness.evidence.review import Review
from pp3.harness.evidence.verified import Step
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed

BY = "1" * 64


@pytest.fixture(scope="module")
def small(measure: Callable[[Campaign, Seed], Measured]) -> Statement:
    """Of two targets, depths and batch sizes; copy before changing."""
    return small_of(measure)


@pytest.fixture
def elsewhere(small: Statement) -> Statement:
    """As another source made it, and a count that does not follow here."""
    statement = copy.deepcopy(small)
    statement["subject"][0]["digest"]["sha256"] = ZEROS
    more(statement["predicate"], "proposal")
    return statement


def recorded(statement: Statement, tmp_path: Path, verdict: str = "INCONCLUSIVE", superseded: bool = True) -> Path:
    """A folder of receipts whose ledger records this one, and one that stands in its place."""
    digest = hashlib.sha256(canonical.encode(statement)).hexdigest()
    lines = [
        f"000001 {digest} evidence/qualify/{STAMP}-{digest}.json {verdict} counter=7",
        f"000002 {BY} evidence/qualify/{STAMP}-{BY}.json PASS",
        f"000003 {digest} superseded-by {BY} a reason",
    ]
    folder = tmp_path / "receipts"
    (folder / "evidence" / "qualify").mkdir(parents=True)
    (folder / "LEDGER").write_text("".join(f"{line}\n" for line in lines[: 3 if superseded else 2]))
    return folder / "evidence" / "qualify"


def test_what_other_sources_made_fails_and_says_so(elsewhere: Statement) -> None:
    """Not superseded: a failure all the same."""
    found, bound = sealed(elsewhere), len(elsewhere["subject"])
    assert found.elsewhere
    assert said(found) == (
        "recompute counts: disjoint/depth-4 at batch 2: drafts at 0 add up to 127, must be 126"
        f" (made by other sources: 1 of {bound} differ here; the pp3 that made it verifies it)"
    )
    assert found.steps[-1] == found.failed
    assert found.verdict == "unknown"


def test_what_other_sources_made_is_skipped_where_superseded(elsewhere: Statement, tmp_path: Path) -> None:
    """Authentic by the ledger, not recomputed, never verified."""
    found = sealed(elsewhere, folder=recorded(elsewhere, tmp_path))
    assert found.elsewhere
    assert not found.ok
    assert found.failed is None
    assert found.by == BY
    outcomes = [(one.name, one.outcome) for one in found.steps]
    assert outcomes[-4:] == [
        ("recompute counts", "skip"),
        ("ledger", "ok"),
        ("signature", "skip"),
        ("sources", "skip"),
    ]
    assert found.sentence == (
        f"NOT RECOMPUTED verdict=INCONCLUSIVE sha256={found.sha256} assurance=self-attested"
        f": authentic, superseded by {BY}: diagnostic only"
    )


def test_what_these_sources_made_is_not_skipped_where_superseded(small: Statement, tmp_path: Path) -> None:
    """A count that does not follow is a failure, whatever the ledger says."""
    statement = copy.deepcopy(small)
    more(statement["predicate"], "proposal")
    found = sealed(statement, folder=recorded(statement, tmp_path))
    assert not found.elsewhere
    assert said(found) == "recompute counts: disjoint/depth-4 at batch 2: drafts at 0 add up to 127, must be 126"
    assert found.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("verdict", "superseded", "outcome", "detail"),
    [
        ("INCONCLUSIVE", True, "ok", f"authentic, superseded by {BY}: diagnostic only (a reason)"),
        ("INCONCLUSIVE", False, "ok", "recorded as evidence/qualify/{name}, not superseded"),
        ("PASS", False, "FAIL", "records the verdict PASS, the receipt says INCONCLUSIVE"),
    ],
    ids=["superseded", "recorded", "of another verdict"],
)
def test_the_ledger_has_its_word(
    verdict: str, superseded: bool, outcome: str, detail: str, small: Statement, tmp_path: Path
) -> None:
    """And the exit code of the command follows."""
    folder = recorded(small, tmp_path, verdict, superseded)
    path = folder / name_of(canonical.encode(small))
    path.write_bytes(canonical.encode(small))
    found = sealed(small, folder=folder)
    step = next(one for one in found.steps if one.name == "ledger")
    assert (step.outcome, step.detail) == (outcome, detail.format(name=path.name))
    code = Exit.NEGATIVE if outcome == "FAIL" else Exit.INCONCLUSIVE if superseded else Exit.OK
    assert cli.run(["verify", str(path)]) == code
    assert (found.by == BY) == superseded


def bound(number: int, form: str = "{name}={digest}") -> Callable[[Statement], str]:
    """What is expected of a bound file."""

    def expected(statement: Statement) -> str:
        one = statement["subject"][number]
        return form.format(name=one["name"], digest=one["digest"]["sha256"])

    return expected


def test_an_expected_sampler_is_held_letter_for_letter(small: Statement) -> None:
    """By name, or by name and version."""
    for expected in ("pp3-top32", "pp3-top32==0.1.0"):
        found = sealed(small, Review(sampler=expected))
        assert found.steps[-1] == Step(name="expected sampler", outcome="ok", detail="pp3-top32==0.1.0")
        assert found.ok
    for expected in ("pp3-top3", "pp3-top32==0.1", "0.1.0", "PP3-top32"):
        found = sealed(small, Review(sampler=expected))
        assert said(found) == f"expected sampler: {expected}; the receipt is of pp3-top32==0.1.0"


def test_an_expected_source_is_held_by_its_digest(small: Statement) -> None:
    """Of the name that is given, if one is; each that is expected."""
    first, last = small["subject"][0], small["subject"][-1]
    digest, other = first["digest"]["sha256"], last["digest"]["sha256"]
    for expected in (bound(0)(small), bound(0, "{digest}")(small)):
        found = sealed(small, Review(sources=(expected, bound(-1)(small))))
        assert [one.detail for one in found.steps[-2:]] == [
            f"{first['name']} is {digest}",
            f"{last['name']} is {other}",
        ]
        assert {one.name for one in found.steps[-2:]} == {"expected source"}
    refused = {
        f"{first['name']}={other}": f"it is bound as {digest}",
        f"wish={digest}": "nothing so is bound",
        ZEROS: "nothing so is bound",
    }
    for expected, reason in refused.items():
        assert said(sealed(small, Review(sources=(expected,)))) == f"expected source: {expected}; {reason}"


def test_the_sources_are_held_against_a_tree(small: Statement, tmp_path: Path) -> None:
    """All of them; one that differs is named and makes the receipt stale, which is no failure."""
    shutil.copytree(provenance.TREE / "pp3", tmp_path / "pp3", ignore=shutil.ignore_patterns("__pycache__"))
    found, n = sealed(small, Review(source=tmp_path)), len(small["subject"])
    assert (found.steps[-1].outcome, found.steps[-1].detail) == ("ok", f"all {n} equal the tree")
    assert (found.current, found.elsewhere) == ("yes", False)
    with (tmp_path / small["subject"][3]["name"]).open("a") as file:
        file.write("# edited\n")
    found = sealed(small, Review(source=tmp_path))
    assert (found.steps[-1].outcome, found.steps[-1].detail) == (
        "skip",
        f"stale: 1 of {n} are others in the tree: {small['subject'][3]['name']}",
    )
    assert (found.current, found.ok) == ("no", True)


REPLAYS: dict[str, tuple[Change, str]] = {
    "a run of its own": (
        lambda p: p["seed"].update(chosen="given"),
        " is a run of its own ('given'); pp3 replay makes one",
    ),
    "another plan": (lambda p: p.update(planSha256=ZEROS), f" has another planSha256: {ZEROS}, not "),
    "another seed": (lambda p: p["seed"].update(sha256=ZEROS), f" has another seed: {ZEROS}, not "),
    "another count": (lambda p: more(p, "proposal"), ""),
}


@pytest.mark.parametrize(("change", "reason"), REPLAYS.values(), ids=REPLAYS)
def test_another_run_than_a_replay_is_refused(change: Change, reason: str, small: Statement, tmp_path: Path) -> None:
    """A receipt of the same plan and seed, marked as a replay, with the same integers."""
    again = copy.deepcopy(small)
    again["predicate"]["seed"]["chosen"] = "replay"
    fine = receipt.write(again, tmp_path)
    found = sealed(small, Review(replay=fine))
    assert [one.name for one in found.steps][-2:] == ["replay", "sources"]
    assert found.assurance == "replayed"
    change(again["predicate"])
    found = sealed(small, Review(replay=receipt.write(again, tmp_path)))
    assert found.failed is not None
    assert found.failed.name == "replay"
    assert reason in found.failed.detail


def test_a_name_that_is_not_the_digest_of_a_replay(small: Statement, tmp_path: Path) -> None:
    """Its bytes are no longer those it was named by."""
    again = copy.deepcopy(small)
    again["predicate"]["seed"]["chosen"] = "replay"
    path = receipt.write(again, tmp_path).rename(tmp_path / f"{STAMP}-{ZEROS}.json")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert said(sealed(small, Review(replay=path))) == f"replay: {path}: its bytes hash to {digest}, not to its name"
