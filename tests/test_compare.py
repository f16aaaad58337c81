"""Comparison: equal receipts are equal, other seeds are no evidence, and everything that is worse is named."""

import copy
import json
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pp3.harness import canonical, cli
from pp3.harness.campaign import of_document, of_plan, plan_sha256
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt
from pp3.harness.evidence.ledger import Record, Superseding, append
from pp3.harness.regression import timings
from pp3.harness.regression.checks import Change, check_rows, exact_rows
from pp3.harness.regression.compare import Comparison, Mark, compare
from pp3.harness.regression.differences import Topic
from pp3.harness.regression.equality import why_not
from pp3.harness.regression.homogeneity import holm, two_sample
from pp3.harness.regression.integers import first_mismatch, of_predicate
from pp3.harness.regression.opened import open_receipt
from pp3.harness.samplers.contract import Description, Randomness
from pp3.harness.seeds import Seed
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.verdict import conclude
from pp3.kernels import reference

Statement = dict[str, Any]
SMALL = {"targets": ["disjoint", "invalidated"], "requests": 20_000, "paired": 64, "batch_sizes": [1, 3], "depths": [4]}
OWN = {"name": "own", "vocab": 64}
ROW = {"ids": [3, 7], "draft_ids": [3, 9], "draft_logits": [1.0, 0.5]}


def small(**instead: Any) -> Any:
    """A campaign that runs in a second."""
    return of_document(SMALL | instead, "a test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where receipts are written."""
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], folder: Path) -> Path:
    """A receipt of counter 1."""
    return receipt_of(small(), folder / "old", 1)


@pytest.fixture(scope="module")
def broken(receipt_of: Callable[..., Path], folder: Path) -> Path:
    """The same plan under a sampler that takes a third of its replacements from the target instead of the residual."""
    real = reference._emit

    def emit(rows: Any, row: Any, support: Any, tickets: Any, rejected: Any, w64: Any) -> Any:
        return real(rows, row, support, tickets, rejected & (w64[:, 3] % 3 > 0), w64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "_emit", emit)
        return receipt_of(small(), folder / "broken", 2)


def compared(old: Path, new: Path) -> Comparison:
    """Two receipts, compared."""
    return compare(open_receipt(old), open_receipt(new))


def resealed(path: Path, change: Callable[[Statement], object], folder: Path) -> Path:
    """A receipt whose integers were changed, everything derived made to follow, under its own name: verifies."""
    statement: Statement = canonical.decode(path.read_bytes())
    change(statement)
    p = statement["predicate"]
    campaign = of_plan(p["plan"])
    p["planSha256"] = plan_sha256(campaign)
    p["seed"]["sha256"] = Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex()
    judged = conclude(
        campaign,
        {(cell["id"], cell["batch"]): cell["counts"] for cell in p["cells"]},
        {(cell["id"], cell["batch"]): cell["first"] for cell in p["cells"]},
        p["breaches"],
        p["paired"],
        p["kernels"],
        p["sampler"],
    )
    p |= {"tests": [test.plain() for test in judged.tests], "verdict": judged.verdict.value, "sees": judged.sees}
    p |= {"deviations": [one.plain() for one in judged.deviations], "seedFamily": judged.seed_family}
    p |= {"reasons": judged.reasons, "sentence": judged.sentence}
    return receipt.write(statement, folder)


def move_one(statement: Statement) -> None:
    """One event of a pair cell's fullest outcome to its next: no sum changes."""
    cells = statement["predicate"]["cells"]
    counts = next(cell["counts"] for cell in cells if cell["id"].startswith("invalidated/depth-4/proposal"))
    first, second = sorted(range(len(counts) - 1), key=lambda atom: -counts[atom])[:2]
    counts[first] -= 1
    counts[second] += 1


# The two-sample test.


@pytest.mark.parametrize("shape", [2, 5, 40])
def test_the_two_sample_statistic_is_that_of_a_contingency_table(shape: int, rng: np.random.Generator) -> None:
    table = rng.integers(200, 400, (2, shape))
    known = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
    mine = two_sample(table[0].tolist(), table[1].tolist())
    assert mine.df == known.dof == shape - 1
    assert mine.g == pytest.approx(known.statistic, rel=1e-12)
    assert mine.p == pytest.approx(known.pvalue, rel=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "df"),
    [
        ([], [], 0),
        ([0], [0], 0),
        ([50, 0], [70, 0], 0),  # one nonempty outcome
        ([30, 30], [0, 0], 0),  # an empty sample
        ([10, 10], [10, 10], 0),  # no two groups expect 20 in either sample
        ([30, 30], [30, 30], 1),
        ([30, 30, 0], [30, 30, 0], 1),  # what neither met has no degree of freedom
        ([30, 30, 3, 3], [30, 30, 3, 3], 1),  # rare ones join another
        ([500, 500, 500], [30, 30, 30], 2),
    ],
    ids=str,
)
def test_degrees_of_freedom_are_nonempty_groups_less_one(old: list[int], new: list[int], df: int) -> None:
    found = two_sample(old, new)
    assert found.df == df
    if not df:
        assert found.p == 1


def test_histograms_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="not the same histogram"):
        two_sample([1, 2], [1, 2, 3])


def test_the_level_of_the_two_sample_test_by_enumeration() -> None:
    """Every pair of binomial samples of 80 and 120, at four chances: at most half as much again as the level says.

    The level is exact here (a sum over all outcomes), so the bound is not a tolerance: 1.5 is what LEAST buys, as
    Wilks' theorem is about large counts.
    """
    for chance, level in product((0.3, 0.5), (1e-2, 1e-3)):
        masses = [stats.binom.pmf(np.arange(n + 1), n, chance) for n in (80, 120)]
        rejected = sum(
            masses[0][i] * masses[1][j]
            for i, j in product(range(81), range(121))
            if masses[0][i] * masses[1][j] > 1e-12 and two_sample([i, 80 - i], [j, 120 - j]).p <= level
        )
        assert rejected <= 1.5 * level


def test_a_difference_is_seen() -> None:
    """10,000 events each at 0.50 and 0.55: noncentrality 50 on one degree of freedom."""
    assert two_sample([5000, 5000], [5500, 4500]).p < 1e-11


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([1.0, 0.5]) == [1.0, 1.0]


# Receipts.


def test_a_receipt_equals_itself(old: Path) -> None:
    found = compared(old, old)
    assert found.exit is Exit.OK
    assert found.same_seed
    assert found.differences == []
    assert {row.mark for row in found.cells} == {Mark.EQUAL}
    assert {row.change for row in found.checks} == {Change.SAME}
    assert found.not_timing == ""
    assert {(row.ratio, row.mark) for row in found.timings} == {(1.0, "~")}
    assert "so is every count" in found.sentence


def test_another_seed_is_no_evidence(receipt_of: Callable[..., Path], old: Path, folder: Path) -> None:
    found = compared(old, receipt_of(small(), folder / "seed", 5))
    assert (found.exit, found.regressions) == (Exit.OK, [])
    assert not found.same_seed
    assert [(row.topic, row.name, row.old, row.new) for row in found.differences] == [(Topic.SEED, "counter", "1", "5")]
    assert {row.mark for row in found.cells} <= {Mark.SAME, Mark.EQUAL}
    assert min(row.holm for row in found.cells if row.df) > 1e-5


def test_the_first_cell_that_differs_under_one_seed_is_named(old: Path, folder: Path) -> None:
    """One event in another outcome: nothing a test sees, and not the same run."""
    found = compared(old, resealed(old, move_one, folder / "moved"))
    assert found.exit is Exit.NEGATIVE
    assert found.mismatch is not None
    assert found.mismatch.cell == "invalidated/depth-4/proposal/position-0/context-0"
    assert (found.mismatch.batch, found.mismatch.what) == (1, "counts")
    assert found.sentence.startswith("REGRESSION: plan and seed are the same, the counts are not: invalidated/depth-4")
    assert Mark.DIFFERS not in {row.mark for row in found.cells}


@pytest.mark.parametrize("field", ["first", "strays", "breaches", "paired"])
def test_every_integer_that_a_seed_fixes_is_compared(old: Path, field: str) -> None:
    before = canonical.decode(old.read_bytes())["predicate"]
    after = copy.deepcopy(before)
    if field == "first":
        after["cells"][2]["first"][0] += 1
    elif field == "strays":
        after["strays"].append({"batch": 1, "cell": after["cells"][0]["id"], "count": 2, "outcome": 5})
    elif field == "breaches":
        after["breaches"]["failed"] = 3
    else:
        after["paired"][1]["mismatches"] = 1
    assert first_mismatch(of_predicate(before), of_predicate(copy.deepcopy(before)), {}) is None
    found = first_mismatch(of_predicate(before), of_predicate(after), {})
    assert found is not None
    named = {"first": after["cells"][2]["id"], "strays": after["cells"][0]["id"], "breaches": "failed"}
    assert found.cell == named.get(field, "invalidated/depth-4/pairs-0")


def test_a_broken_sampler_is_a_regression(old: Path, broken: Path) -> None:
    """The verdict, the checks and the raw counts say so, each by itself."""
    found = compared(old, broken)
    assert found.exit is Exit.NEGATIVE
    assert found.verdicts == ("PASS", "FAIL")
    assert found.regressions[0] == "the verdict was PASS and is FAIL"
    worse = {row.id for row in found.checks if row.change is Change.WORSE}
    assert "invalidated/depth-4/residual/position-0" in worse
    assert any(row.mark is Mark.DIFFERS and "/residual/" in row.id for row in found.cells)


def test_a_mended_sampler_is_none(old: Path, broken: Path) -> None:
    """The other way round the same cells differ, and their checks pass now."""
    found = compared(broken, old)
    assert any(row.mark is Mark.DIFFERS for row in found.cells)
    assert (found.exit, found.regressions) == (Exit.OK, [])
    assert {row.change for row in found.checks} == {Change.SAME, Change.BETTER}


def test_a_mended_sampler_gives_other_counts_under_one_seed(
    receipt_of: Callable[..., Path], broken: Path, folder: Path
) -> None:
    """The first that differs is named all the same; the other way round it is a regression."""
    right = receipt_of(small(), folder / "right", 2)
    found = compared(broken, right)
    assert found.same_seed
    assert found.mismatch is not None
    assert (found.exit, found.regressions) == (Exit.OK, [])
    assert "every count" not in found.sentence
    assert compared(right, broken).regressions[0].startswith("plan and seed are the same, the counts are not")


def test_what_vanished_is_a_regression(receipt_of: Callable[..., Path], old: Path, folder: Path) -> None:
    """A target, and a size of launches; what was added is none."""
    less = receipt_of(small(targets=["invalidated"], batch_sizes=[3]), folder / "less", 1)
    found = compared(old, less)
    assert found.exit is Exit.NEGATIVE
    assert any(row.change is Change.VANISHED and row.id.startswith("disjoint/") for row in found.checks)
    gone = [row for row in found.cells if row.mark is Mark.VANISHED]
    assert {row.batch for row in gone if row.id.startswith("invalidated/")} == {1}
    more = compared(less, old)
    assert [row.mark for row in more.cells].count(Mark.ADDED) == len(gone)
    assert not any("not in NEW" in text for text in more.regressions)


def test_less_power_is_weaker(receipt_of: Callable[..., Path], old: Path, folder: Path) -> None:
    """15,000 requests of 20,000: still a PASS, of larger effects; the other way round nothing is weaker."""
    fewer = receipt_of(small(requests=15_000), folder / "fewer", 1)
    found = compared(old, fewer)
    assert found.verdicts == ("PASS", "PASS")
    assert (found.exit, found.regressions) == (Exit.OK, [])
    assert found.sentence.startswith("WEAKER: no regression found")
    token = next(row for row in found.checks if row.id == "disjoint/depth-4/token/position-0")
    assert token.change is Change.WEAKER
    assert float(token.sees_new) > float(token.sees_old) * 1.1
    assert compared(fewer, old).weaker == []


def test_sizes_are_compared_at_one_power(old: Path) -> None:
    """A plan that asks for less power sees smaller effects by its own count; at OLD's power they are the same."""
    before = canonical.decode(old.read_bytes())["predicate"]
    after = copy.deepcopy(before)
    after["plan"]["power"] = "0.5"
    for test in after["tests"]:
        test["detectable"] = "1e-9"
    assert {row.change for row in check_rows(before, after, [])} == {Change.SAME}


def test_another_law_is_incomparable(receipt_of: Callable[..., Path], folder: Path) -> None:
    """The target of one name has another law: its cells are not compared, those of the others are."""
    paths = []
    for weight in (1 << 23, 1 << 22):
        row = ROW | {"weights": [weight, (1 << 24) - weight]}
        own = small(targets=["disjoint", "own"], target=[OWN | {"rows": [row]}])
        paths.append(receipt_of(own, folder / str(weight), 1))
    found = compared(*paths)
    assert (found.exit, found.not_correctness) == (Exit.INCONCLUSIVE, "the law of own is another one")
    assert {row.mark for row in found.cells if row.id.startswith("own/")} == {Mark.OTHER_LAW}
    assert {row.mark for row in found.cells if row.id.startswith("disjoint/")} <= {Mark.SAME, Mark.EQUAL}


def test_no_target_in_common_is_incomparable(receipt_of: Callable[..., Path], folder: Path) -> None:
    one, other = (receipt_of(small(targets=[name]), folder / name, 1) for name in ("disjoint", "invalidated"))
    found = compared(one, other)
    assert found.exit is Exit.INCONCLUSIVE
    assert found.sentence == "INCOMPARABLE: no target in common: disjoint there, invalidated here"


def test_one_that_other_sources_made_is_incomparable(old: Path, folder: Path) -> None:
    """A plan as an older version wrote it: it may be authentic, and cannot be verified here."""

    def age(statement: Statement) -> None:
        statement["subject"][0]["digest"]["sha256"] = "0" * 64
        del statement["predicate"]["plan"]["detect"]

    statement = canonical.decode(old.read_bytes())
    age(statement)
    found = compared(receipt.write(statement, folder / "aged"), old)
    assert found.exit is Exit.INCONCLUSIVE
    assert found.not_correctness.startswith("OLD does not verify here: plan:")
    assert [row.name for row in found.differences if row.topic is Topic.SOURCES] == [statement["subject"][0]["name"]]


def test_exact_receipts_lose_nothing() -> None:
    """Enumerations that are gone are regressions, smaller ones are weaker; a survey's rows go by verdict."""

    def exact(**sizes: int) -> Statement:
        return {"kind": "exhaustive", "enumerations": [{"id": name, "compared": size} for name, size in sizes.items()]}

    rows = exact_rows(exact(draws=9, edges=5), exact(draws=8))
    assert [(row.id, row.change) for row in rows] == [("draws", Change.WEAKER), ("edges", Change.VANISHED)]

    def surveyed(**verdicts: str) -> Statement:
        return {"kind": "survey", "samplers": [{"name": name, "verdict": verdicts[name]} for name in verdicts]}

    rows = exact_rows(surveyed(a="PASS", b="FAIL", c="PASS"), surveyed(a="FAIL", b="PASS", d="PASS"))
    assert [row.change for row in rows] == [Change.WORSE, Change.BETTER, Change.VANISHED, Change.ADDED]


H200, XEON, EPYC = {"gpu": "NVIDIA H200"}, {"processor": "Xeon"}, {"processor": "EPYC"}


@pytest.mark.parametrize(
    ("randomness", "rows", "old", "new", "why"),
    [
        (Randomness.GENERATOR, 64, XEON, XEON, "torch.Generator"),
        (Randomness.GLOBAL, 64, XEON, XEON, "global generator"),
        (Randomness.KEYED, 64, XEON, XEON, ""),
        (Randomness.INJECTED, 0, XEON, XEON, ""),
        (Randomness.KEYED, 64, XEON, EPYC, "in floating point, on Xeon there and on EPYC here"),
        (Randomness.KEYED, 64, {}, XEON, "in floating point, on a CPU there and on Xeon here"),
        (Randomness.ADDRESSED, 64, XEON, EPYC, ""),
        (Randomness.ADDRESSED, 64, H200, XEON, ""),
        (Randomness.ADDRESSED, 0, H200, XEON, "requests at a time"),
        (Randomness.KEYED, 64, H200, XEON, "floating point"),
    ],
)
def test_equal_counts_are_promised_where_they_can_be(
    randomness: Randomness, rows: int, old: dict[str, str], new: dict[str, str], why: str
) -> None:
    who = Description(name="x", kind="plain", randomness=randomness, rows_per_launch=rows)
    trial = make(TrialSpec(sampler="x", requests=1_000_000, targets=["rows-of-12"]), who, "test")
    found = why_not(trial, old, new)
    assert (why in found) if why else (found == "")


# Timings.


def test_the_interval_of_a_median_covers_it() -> None:
    """Of n samples the interval misses the median with at most (1 - 0.95) / 2, exactly; it is the narrowest such."""
    for n in range(1, 200):
        found = timings.interval(list(range(n)))
        limit = (1 - timings.CONFIDENCE) / 2
        if found is None:
            assert 2 * 0.5**n > limit  # not even the extremes do
            continue
        below = found[0]  # samples below the interval: 0, 1, ... are their own ranks
        assert 2 * stats.binom.cdf(below, n, 0.5) <= limit
        assert 2 * stats.binom.cdf(below + 1, n, 0.5) > limit or below + 1 >= n - 1 - below - 1


@pytest.mark.parametrize(("factor", "mark"), [(0.5, "faster"), (1.0, "~"), (2.0, "slower")])
def test_timings_are_ratios_with_intervals(factor: float, mark: str, rng: np.random.Generator) -> None:
    old = rng.integers(90, 110, 101)
    new = (rng.integers(90, 110, 101) * factor).astype(int)
    rows = [[{"id": "round", "unit": "ns", "samples": samples.tolist()}] for samples in (old, new)]
    [found] = timings.ratios(*rows)
    assert found.mark == mark
    assert found.low <= found.ratio <= found.high
    assert found.ratio == pytest.approx(np.median(new) / np.median(old))
    assert timings.ratios(rows[0], [{"id": "other", "unit": "ns", "samples": [1] * 99}]) == []


MADE_ON: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "one GPU": ({"gpu": "H200"}, {"gpu": "H200"}, ""),
    "two GPUs": (
        {"gpu": "H200"},
        {"gpu": "A100"},
        "timings of H200 there, of A100 here: no ratio says which is faster",
    ),
    "a GPU and none": ({"gpu": "H200"}, {"processor": "Xeon"}, "timings of H200 there, of Xeon here"),
    "one processor": ({"processor": "Xeon"}, {"processor": "Xeon"}, ""),
    "two processors": ({"processor": "Xeon"}, {"processor": "EPYC"}, "timings of Xeon there, of EPYC here"),
}


@pytest.mark.parametrize(("there", "here", "why"), MADE_ON.values(), ids=MADE_ON)
def test_timings_of_different_machines_are_refused(
    there: dict[str, str], here: dict[str, str], why: str, old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command, of receipts that verify; nothing else of the comparison changes."""

    def made_on(named: dict[str, str], where: str) -> Path:
        identity = {"backend": "interpreter"} | named
        return resealed(old, lambda s: s["predicate"]["kernels"].update(identity=identity), tmp_path / where)

    pair = made_on(there, "there"), made_on(here, "here")
    assert cli.run(["compare", *map(str, pair), "--json"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert said["comparable"]["timing"] == (why == "")
    assert said["comparable"]["timingReason"].startswith(why)
    ids = [row["id"] for row in canonical.decode(old.read_bytes())["predicate"]["timings"]]
    assert [row["id"] for row in said["timings"]] == ([] if why else ids)
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in said["timings"])
    assert said["conclusion"] == "no-regression"


def test_timings_of_different_things_are_refused(old: Path, tmp_path: Path) -> None:
    """As those of launches and those of a campaign's pieces; one that both hold is compared."""
    piece = {"id": "disjoint/depth-4/piece-of-64-pairs", "samples": [5] * 9, "unit": "ns"}
    [first, *_] = canonical.decode(old.read_bytes())["predicate"]["timings"]
    pieces = resealed(old, lambda s: s["predicate"].update(timings=[piece]), tmp_path / "pieces")
    found = compared(old, pieces)
    assert (found.exit, found.timings) == (Exit.OK, [])
    assert found.not_timing == f"nothing was timed in both: {first['id']} there, {piece['id']} here"
    both = resealed(old, lambda s: s["predicate"].update(timings=[piece, first]), tmp_path / "both")
    assert [row.id for row in compared(both, pieces).timings] == [piece["id"]]
    assert [row.id for row in compared(old, both).timings] == [first["id"]]


@pytest.mark.parametrize("without", ["OLD", "NEW", "both"])
def test_a_receipt_without_timings_is_compared_without(without: str, old: Path, tmp_path: Path) -> None:
    """Those written before they were taken."""
    older = resealed(old, lambda s: s["predicate"].pop("timings"), tmp_path)
    pair = {"OLD": (older, old), "NEW": (old, older), "both": (older, older)}[without]
    found = compared(*pair)
    assert (found.exit, found.timings) == (Exit.OK, [])
    assert found.not_timing == ("neither receipt holds timings" if without == "both" else f"{without} holds no timings")


# The command.


def test_what_is_printed_fits_a_terminal(broken: Path, old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The conclusion in one line, for scripts; all else in 80 columns, checks that became worse by name."""
    assert cli.run(["compare", str(old), str(broken)]) == Exit.NEGATIVE
    conclusion, *lines = capsys.readouterr().out.splitlines()
    assert conclusion.startswith("REGRESSION: the verdict was PASS and is FAIL (and ")
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    assert any(line.startswith("correctness  comparable") for line in lines)
    assert any(re.search(r"^\w\S+/\S+ +worse +pass +fail ", line) for line in lines)


def test_a_superseded_receipt_of_other_sources_is_incomparable(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verification skips what does not recompute of one that the ledger supersedes: nothing follows from it."""
    statement: Statement = canonical.decode(old.read_bytes())
    now = receipt.write(statement, tmp_path / "receipts" / "evidence" / "qualify")
    statement["subject"][0]["digest"]["sha256"] = "0" * 64
    del statement["predicate"]["plan"]["power"]
    before = receipt.write(statement, now.parent)
    digests = [path.stem.rpartition("-")[2] for path in (before, now)]
    records = [
        Record(sha256=digest, name=f"evidence/qualify/{path.name}", verdict="PASS")
        for digest, path in zip(digests, (before, now), strict=True)
    ]
    append(tmp_path / "receipts" / "LEDGER", records, [Superseding(sha256=digests[0], by=digests[1], reason="a test")])
    opened = open_receipt(before)
    assert (opened.verified.failed, opened.verified.ok) == (None, False)
    assert cli.run(["compare", str(before), str(now)]) == Exit.INCONCLUSIVE
    assert capsys.readouterr().out.startswith("INCOMPARABLE: OLD does not verify here: plan: ")


def test_json_says_the_same(old: Path, broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["compare", str(old), str(broken), "--json"]) == Exit.NEGATIVE
    found = json.loads(capsys.readouterr().out)
    assert found["conclusion"] == "regression"
    assert found["verdicts"] == {"old": "PASS", "new": "FAIL"}
    assert found["comparable"]["correctness"] is True
    assert found["comparable"]["timing"] is True
    assert {row["mark"] for row in found["timings"]} <= {"faster", "~", "slower"}
    assert len(found["timings"]) == 6
    assert {"=", "~", "!"} >= {row["mark"] for row in found["cells"]}
    assert found["verified"] == {"old": True, "new": True}


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("missing", Exit.USAGE, "give the path of a receipt"),
        ("no receipt", Exit.NEGATIVE, "not an in-toto statement"),
        ("no json", Exit.NEGATIVE, ""),
        ("altered", Exit.NEGATIVE, "NOT VERIFIED at name"),
        ("other kind", Exit.INCONCLUSIVE, "give two of one kind"),
        ("alpha", Exit.USAGE, "between 0 and 1"),
    ],
)
def test_bad_input_is_named(
    what: str, code: Exit, said: str, old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / old.name
    if what == "no receipt":
        other.write_text("{}", "utf-8")
    elif what == "no json":
        other.write_text("receipt", "utf-8")
    elif what == "altered":
        other.write_bytes(old.read_bytes().replace(b'"counter":1', b'"counter":2'))
    elif what == "other kind":
        evidence = Path(__file__).resolve().parents[1] / "receipts" / "evidence" / "oracle"
        other = max(evidence.glob("*.json"))
    elif what == "alpha":
        other = old
    arguments = ["--alpha", "2"] if what == "alpha" else []
    assert cli.run(["compare", str(old), str(other), *arguments]) == code
    assert said in capsys.readouterr().err
