"""What a reviewer brings, met from both sides: ledgers that say more or less, replays of a digest below and above."""

import copy
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import canonical
from pp3.harness.campaign import Campaign, of_document
from pp3.harness.errors import CampaignError
from pp3.harness.evidence import receipt
from pp3.harness.evidence.review import Review
from pp3.harness.evidence.verified import Verified
from pp3.harness.evidence.verify import verify

SMALL = {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}
SIDES = ("0" * 64, "f" * 64)  # of every digest
WHEN = "20260101T000000Z"
Statement = dict[str, Any]
Predicate = dict[str, Any]


@pytest.fixture(scope="module")
def path(receipt_of: Callable[[Campaign, Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real receipt."""
    return receipt_of(of_document(SMALL, "test"), tmp_path_factory.mktemp("review"))


@pytest.fixture
def statement(path: Path) -> Statement:
    """What it says."""
    return dict(canonical.decode(path.read_bytes()))


def under(review: Review, path: Path) -> Verified:
    """What becomes of a receipt under a review."""
    return verify(path, path.read_bytes(), review=review.checked())


def said(found: Verified) -> str:
    """The step that fails and its reason."""
    return "" if found.failed is None else f"{found.failed.name}: {found.failed.detail}"


def detail(found: Verified, name: str) -> str:
    """What a step that holds says."""
    [held] = [one.detail for one in found.steps if (one.name, one.outcome) == (name, "ok")]
    return held


def ledger_of(folder: Path, path: Path, verdict: str, by: str = "") -> Path:
    """A ledger that records a receipt with a verdict and, where another one is named, that it stands in its place."""
    digest = path.stem.rpartition("-")[2]
    records = [f"{digest} evidence/qualify/{path.name} {verdict} counter=7"]
    if by:
        records += [f"{by} evidence/qualify/{WHEN}-{by}.json PASS", f"{digest} superseded-by {by} a reason"]
    written = folder / "LEDGER"
    written.write_text("".join(f"{number:06d} {record}\n" for number, record in enumerate(records, 1)))
    return written


@pytest.mark.parametrize("verdict", ["FAIL", "TOLERATED"])
def test_a_ledger_of_another_verdict(verdict: str, path: Path, tmp_path: Path) -> None:
    """Worse than the receipt's or better."""
    found = under(Review(ledger=ledger_of(tmp_path, path, verdict)), path)
    assert said(found) == f"ledger: records the verdict {verdict}, the receipt says PASS"


@pytest.mark.parametrize("by", SIDES)
def test_a_receipt_is_superseded_whatever_the_digest_of_the_other(by: str, path: Path, tmp_path: Path) -> None:
    found = under(Review(ledger=ledger_of(tmp_path, path, "PASS", by)), path)
    assert detail(found, "ledger") == f"authentic, superseded by {by}: diagnostic only (a reason)"
    assert (found.by, found.ok) == (by, True)


def test_of_a_ledger_with_problems_the_first_is_said(path: Path, tmp_path: Path) -> None:
    book = ledger_of(tmp_path, path, "PASS")
    book.write_text(f"a note\n{book.read_text()}another\n")
    assert said(under(Review(ledger=book), path)) == f"ledger: {book}: line 1 is no record: 'a note'"


def test_a_superseded_verdict_that_other_sources_came_to_is_not_verified(path: Path, tmp_path: Path) -> None:
    """All but the verdict recomputes: it is skipped, and a receipt without a verdict is not ok."""
    changed = canonical.decode(path.read_bytes())
    changed["subject"][0]["digest"]["sha256"] = SIDES[0]
    changed["predicate"]["sentence"] = "PASS: as it was said then."
    other = receipt.write(changed, tmp_path)
    found = under(Review(ledger=ledger_of(tmp_path, other, "PASS", SIDES[1])), other)
    assert ("verdict", "skip") in [(one.name, one.outcome) for one in found.steps]
    assert (found.failed, found.ok, found.elsewhere) == (None, False, True)
    assert found.sentence.startswith("NOT RECOMPUTED verdict=PASS ")


def replayed(statement: Statement, folder: Path, change: Callable[[Predicate], object] = lambda p: None) -> Path:
    """The receipt as somebody who ran it again would write it, with something changed."""
    again = copy.deepcopy(statement)
    again["predicate"]["seed"]["chosen"] = "replay"
    change(again["predicate"])
    return receipt.write(again, folder)


def test_a_replay_is_named_by_sixteen_digits(path: Path, statement: Statement, tmp_path: Path) -> None:
    """And says how many integers were compared: every count of every cell, and of its first half."""
    again = replayed(statement, tmp_path)
    counts = sum(len(cell["counts"]) + len(cell["first"]) for cell in statement["predicate"]["cells"])
    start = hashlib.sha256(again.read_bytes()).hexdigest()[:16]
    assert detail(under(Review(replay=again), path), "replay") == (
        f"{counts:,} integers are those of {start}, run again; whoever made that vouches for it"
    )


@pytest.mark.parametrize("digest", SIDES)
def test_a_replay_of_another_digest(digest: str, path: Path, statement: Statement, tmp_path: Path) -> None:
    """Of the plan, of the seed, in its name."""
    mine = statement["predicate"]
    plan = replayed(statement, tmp_path, lambda p: p.update(planSha256=digest))
    seed = replayed(statement, tmp_path, lambda p: p["seed"].update(sha256=digest))
    for other, key, its in ((plan, "planSha256", mine["planSha256"]), (seed, "seed", mine["seed"]["sha256"])):
        assert said(under(Review(replay=other), path)) == f"replay: {other} has another {key}: {digest}, not {its}"
    named = replayed(statement, tmp_path)
    named = named.rename(named.with_name(f"{WHEN}-{digest}.json"))
    bytes_of = hashlib.sha256(named.read_bytes()).hexdigest()
    assert said(under(Review(replay=named), path)) == f"replay: {named}: its bytes hash to {bytes_of}, not to its name"


@pytest.mark.parametrize("kind", ["oracle", "trial"])
def test_a_receipt_of_another_kind_is_no_replay(kind: str, path: Path) -> None:
    """Whether that kind sorts before this one or behind it, and whether it has a seed or none."""
    folder = Path(__file__).resolve().parents[1] / "receipts" / "evidence" / kind
    other = min(folder.glob("*.json"), key=lambda one: one.stat().st_size)
    assert said(under(Review(replay=other), path)) == (
        f"replay: {other} is of kind '{kind}', this receipt of 'qualify'"
    )


def test_a_kind_whose_seed_fixes_no_integers_has_no_replay() -> None:
    """Two receipts of it are of one kind all the same."""
    folder = Path(__file__).resolve().parents[1] / "receipts" / "evidence" / "oracle"
    one = max(folder.glob("*.json"))
    assert said(under(Review(replay=one), one)) == f"replay: {one} is of kind 'oracle', this receipt of 'oracle'"


def test_of_files_of_equal_bytes_the_first_is_named(path: Path, statement: Statement) -> None:
    """As are the empty ones that make folders packages."""
    empty = hashlib.sha256(b"").hexdigest()
    names = [one["name"] for one in statement["subject"] if one["digest"]["sha256"] == empty]
    assert len(names) > 1
    assert detail(under(Review(sources=(empty,)), path), "expected source") == f"{names[0]} is {empty}"
    assert (
        detail(under(Review(sources=(f"{names[-1]}={empty}",)), path), "expected source") == f"{names[-1]} is {empty}"
    )


@pytest.mark.parametrize("expected", ["0" * 63, "0" * 65, "F" * 64, "wish", "a=" + "0" * 63, f"{'0' * 64}=a", ""])
def test_what_is_no_digest_is_not_expected(expected: str) -> None:
    """Of any of those given, whatever its name; a digest is, with a name and without."""
    fine = ("0" * 64, f"a=b={'f' * 64}")
    assert Review(sources=fine).checked().sources == fine
    reason = f"--expect-source {expected}: give SHA256 or NAME=SHA256, 64 digits in lower case"
    with pytest.raises(CampaignError) as found:
        Review(sources=(*fine, expected)).checked()
    assert str(found.value) == reason


def test_a_folder_and_a_key_are_given_or_not(tmp_path: Path) -> None:
    """None is none; one that is not there is refused; a signer needs a key."""
    assert Review().checked() == Review()
    both = Review(source=tmp_path, key=tmp_path / "allowed", signer="somebody")
    assert both.checked() is both
    with pytest.raises(CampaignError, match=r"^--source .*: no such folder; give the root of a checkout$"):
        Review(source=tmp_path / "nowhere").checked()
    with pytest.raises(CampaignError, match=r"^--signer somebody without --key: "):
        Review(signer="somebody").checked()
