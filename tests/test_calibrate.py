"""`pp3 calibrate`: a right battery passes, each planted fault of one fails, and what is forged is named."""

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special

from pp3.harness import battery, canonical, cli, tails
from pp3.harness.battery import Floats, Many
from pp3.harness.calibrate import command, found, judge, plan, run
from pp3.harness.calibrate.found import Found, observe
from pp3.harness.calibrate.judge import Outcome
from pp3.harness.calibrate.plan import ALPHAS, CHUNK, Level
from pp3.harness.design import Check, Method
from pp3.harness.design import design as designed
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt
from pp3.harness.evidence.verify import verify
from pp3.harness.report.render import page
from pp3.harness.seeds import Seed

Statement = dict[str, Any]


@pytest.fixture(scope="module")
def statement(calibrated: Any) -> Statement:
    """A small calibration's."""
    found: Statement = calibrated.statement()
    return found


def test_a_right_battery_passes(statement: Statement) -> None:
    """By every figure: two levels at three alphas, kinds of both, far tails of both."""
    p = statement["predicate"]
    assert (p["verdict"], p["reasons"]) == ("PASS", [])
    assert [(one["level"], one["alpha"]) for one in p["figures"]["families"]] == [
        (level, alpha) for level in ("counts", "requests") for alpha in ("0.2", "0.05", "0.01")
    ]
    assert {one["level"] for one in p["figures"]["uniform"]} == {"counts", "requests"}
    assert "1,000 null campaigns of counts" in p["sentence"]
    assert p["sentence"].endswith("Self-attested.")


def test_it_verifies_from_its_integers(statement: Statement, tmp_path: Path) -> None:
    path = receipt.write(statement, tmp_path)
    verified = verify(path, path.read_bytes())
    assert verified.ok, verified.sentence
    assert [step.name for step in verified.steps][3:8] == [
        "plan",
        "recompute counts",
        "recompute tails",
        "recompute statistics",
        "verdict",
    ]


FORGED: dict[str, tuple[Callable[[Statement], Any], str]] = {
    "a rejection less": (lambda p: p["levels"][0]["rejected"].__setitem__(1, 1), "recompute counts"),
    "a campaign less": (lambda p: p["levels"][0].update(campaigns=999), "recompute counts"),
    "a kind less": (lambda p: p["levels"][1]["kinds"].pop(), "recompute counts"),
    "a transform less": (lambda p: p["levels"][0]["kinds"][0]["pit"].__setitem__(0, 0), "recompute counts"),
    "more below": (lambda p: p["levels"][0]["kinds"][0]["below"].__setitem__(2, 999), "recompute counts"),
    "a coin's tail": (
        lambda p: next(t for t in p["tails"] if t["how"] == "enumerated").update(chance="0"),
        "recompute tails",
    ),
    "no tail of a check": (lambda p: p["tails"].pop(0), "recompute tails"),
    "an estimate of no number": (lambda p: p["tails"][0].update(chance="nan"), "recompute tails"),
    "a wider band": (lambda p: p["figures"]["families"][0].update(high=1_000), "recompute statistics"),
    "held by saying so": (lambda p: p["figures"]["uniform"][0].update(held=False), "recompute statistics"),
    "seeds that came again": (lambda p: p["levels"][0].update(distinct=500), "verdict"),
    "a better sentence": (lambda p: p.update(sentence="PASS: always. Self-attested."), "verdict"),
}


@pytest.mark.parametrize(("change", "step"), FORGED.values(), ids=FORGED)
def test_what_is_forged_is_named(
    change: Callable[[Statement], Any], step: str, statement: Statement, tmp_path: Path
) -> None:
    forged = copy.deepcopy(statement)
    change(forged["predicate"])
    path = receipt.write(forged, tmp_path)
    failed = [one.name for one in verify(path, path.read_bytes()).steps if one.outcome == "FAIL"]
    assert failed == [step]


def test_its_page_shows_families_tails_and_kinds(statement: Statement) -> None:
    """The same bytes each time, without scripts."""
    content = canonical.encode(statement)
    html = page(content, statement)
    assert html == page(content, statement)
    assert html.count("<svg") == 5
    for shown in ("Families of 1,000 null campaigns of counts", "Far tails", "proposal/g", "match/binomial"):
        assert shown in html
    assert "<script" not in html


# Planted faults of a battery. Each runs the level of counts alone, with far tails that a right battery has.


def doubled_shares(patch: pytest.MonkeyPatch) -> None:
    """Each check has twice its share of alpha."""
    from dataclasses import replace

    patch.setattr(found, "design", lambda chosen: [replace(one, alpha=2 * one.alpha) for one in designed(chosen)])


def faulty(patch: pytest.MonkeyPatch, **functions: Callable[..., Any]) -> None:
    """Other tails than the right ones, in the battery alone."""
    names = ("chi2_sf", "chi2_cdf", "binom_sf", "binom_cdf", "two_sided")
    patch.setattr(battery, "tails", SimpleNamespace(**({name: getattr(tails, name) for name in names} | functions)))


def freedom(more: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Chi-square with other degrees of freedom."""
    return lambda patch: faulty(patch, chi2_sf=lambda x, df: tails.chi2_sf(x, df + more))


def not_doubled(patch: pytest.MonkeyPatch) -> None:
    """The smaller tail of a coin, once."""
    faulty(patch, two_sided=lambda hits, n, p: tails.two_sided(hits, n, p) / 2)


def one_tail_doubled(patch: pytest.MonkeyPatch) -> None:
    """Twice the upper tail of a coin, whichever is smaller."""
    faulty(patch, two_sided=lambda hits, n, p: np.minimum(1.0, 2 * tails.binom_sf(hits - 1, n, p)))


def pooled_by_counts(patch: pytest.MonkeyPatch) -> None:
    """Of the planned groups, and these in pairs from the first or the second on, those whose counts show most."""
    right = battery.p_values

    def p_values(check: Check, counts: Many) -> Floats:
        p = right(check, counts)
        if check.method is not Method.G or len(check.cells) > 1 or check.cells[0].strata[-1]:
            return p
        seen = battery.grouped(check.cells[0], counts[check.cells[0].cell.id])
        law = check.cells[0].probabilities
        for starts in (np.arange(0, len(law), 2), np.unique([0, *range(1, len(law), 2)])):
            some, share = (np.add.reduceat(part, starts, axis=-1) for part in (seen, law))
            g = 2 * special.xlogy(some, some / (seen.sum(axis=1, keepdims=True) * share)).sum(axis=1)
            p = np.minimum(p, tails.chi2_sf(g, len(starts) - 1)) if len(starts) > 1 else p
        return p

    patch.setattr(found, "p_values", p_values)


def same_seed(patch: pytest.MonkeyPatch) -> None:
    """Every chunk has the numbers of the first."""
    patch.setattr(run, "stream", lambda seed, label, number: plan.stream(seed, label, 0))


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "shares of alpha doubled": (doubled_shares, "are rejected at alpha 0.05, more than"),
    "a degree of freedom too few": (freedom(-1), "are not uniform"),
    "a degree of freedom too many": (freedom(1), "are not uniform"),
    "a tail not doubled": (not_doubled, "p-values of match/binomial are not uniform"),
    "the upper tail doubled": (one_tail_doubled, "p-values of match/binomial are not uniform"),
    "pooled by the counts": (pooled_by_counts, "p-values of proposal/g are not uniform"),
    "a seed used again": (same_seed, f"1,000 campaigns have {CHUNK} different counts"),
}


@pytest.mark.parametrize(("plant", "why"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_fails(
    plant: Callable[[pytest.MonkeyPatch], None], why: str, calibrated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = calibrated.plan(1_000, 0)
    plant(monkeypatch)
    levels = counted(chosen, 1)
    concluded = judge.conclude(chosen, levels, calibrated.found()[1])
    assert concluded.verdict is Outcome.FAIL
    assert [reason for reason in concluded.reasons if why in reason], concluded.reasons
    assert concluded.sentence.startswith("FAIL: the battery does not keep its level")


def counted(chosen: plan.Plan, counter: int) -> dict[Level, dict[str, Any]]:
    """What campaigns of counts come to, in receipt form; none of requests."""
    work, total = run.Worker(chosen, Seed.of(chosen.sha256, counter)), Found()
    for low in range(0, chosen.campaigns[Level.COUNTS], CHUNK):
        part = work.do((Level.COUNTS.value, low, low + CHUNK))
        assert isinstance(part, Found)
        total.add(part)
    return {Level.COUNTS: total.plain(), Level.REQUESTS: Found().plain()}


def test_a_battery_that_never_rejects_fails(calibrated: Any) -> None:
    """The lower side of the bands, at both levels: no rejection at all, and p-values of 1."""
    levels = {level: one.plain() for level, one in calibrated.found()[0].items()}
    silent = copy.deepcopy(levels)
    for one in silent.values():
        one["rejected"], one["family"] = [0] * len(ALPHAS), [0] * 99 + [one["campaigns"]]
    concluded = judge.conclude(calibrated.plan(), silent, calibrated.found()[1])
    assert concluded.verdict is Outcome.FAIL
    assert [reason.partition(":")[0] for reason in concluded.reasons if "fewer than" in reason][-1] == "requests"


def test_tails_beyond_the_level_fail(calibrated: Any) -> None:
    """Chances whose sum is surely above the family's."""
    levels, found_tails = calibrated.found()
    wrong = [one | {"chance": f"{2 * float(one['alpha']):.6g}", "exact": ""} for one in found_tails]
    plain = {level: one.plain() for level, one in levels.items()}
    concluded = judge.conclude(calibrated.plan(), plain, wrong)
    assert concluded.verdict is Outcome.FAIL
    assert "the checks reject a null with" in concluded.reasons[0]


def test_no_campaign_of_requests_decides_nothing(calibrated: Any) -> None:
    chosen = calibrated.plan(1_000, 0)
    concluded = judge.conclude(chosen, counted(chosen, 3), calibrated.found()[1])
    assert (concluded.verdict, concluded.reasons) == (Outcome.INCONCLUSIVE, ["no campaign of requests was run"])


def test_campaigns_with_the_same_counts_are_counted_once(calibrated: Any, rng: np.random.Generator) -> None:
    chosen = calibrated.plan()
    built = found.battery_of(chosen.of[Level.COUNTS])
    counts = run.drawn(built, chosen.of[Level.COUNTS], 6, rng)
    twice: Many = {name: np.concatenate([rows, rows]) for name, rows in counts.items()}
    assert observe(built, twice, 0, rng).plain()["distinct"] == 6


def test_any_number_of_processes_gives_the_same(calibrated: Any) -> None:
    """Two chunks of counts, here and in two processes."""
    chosen = calibrated.plan()
    work = run.Worker(chosen, Seed.of(chosen.sha256, 5))
    tasks = [(Level.COUNTS.value, low, low + CHUNK) for low in (0, CHUNK)]
    here, there = (dict(run._results(work, tasks, jobs)) for jobs in (1, 2))
    assert here.keys() == there.keys() == set(tasks)
    for task in tasks:
        one, other = here[task], there[task]
        assert isinstance(one, Found)
        assert isinstance(other, Found)
        assert (one.plain(), one.digests) == (other.plain(), other.digests)


def test_the_command_writes_a_receipt_and_a_page(
    calibrated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says the sentence; its exit code is that of the verdict."""
    monkeypatch.setattr(command, "run", lambda *_: calibrated.found())
    out = tmp_path / "out"
    assert command.run_command(1, 0, calibrated.COUNTER, 1, out, False, calibrated.plan()) == Exit.OK
    said = capsys.readouterr().out
    assert said.startswith("PASS: the battery keeps its level")
    assert {path.suffix for path in out.iterdir()} == {".json", ".html"}
    assert cli.run(["verify", str(next(out.glob("*.json")))]) == Exit.OK
    assert cli.run(["replay", str(next(out.glob("*.json")))]) == Exit.USAGE
    assert "pp3 calibrate" in capsys.readouterr().err


BAD: dict[str, list[str]] = {
    "too few campaigns": ["--campaigns", "199"],
    "too many": ["--campaigns", "1000001"],
    "none of counts": ["--campaigns", "0"],
    "too few of requests": ["--requests-campaigns", "10"],
    "no process": ["--jobs", "0"],
    "a counter below 0": ["--counter", "-1"],
}


@pytest.mark.parametrize("options", BAD.values(), ids=BAD)
def test_bad_input_is_refused(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["calibrate", *options, "--out", str(tmp_path / "out")]) == Exit.USAGE
    said = capsys.readouterr().err
    assert options[0] in said
    assert options[1] in said
    assert not (tmp_path / "out").exists()
