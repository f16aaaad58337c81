"""Pictures: what a caption finds follows from the numbers, and a drawing is fit to be inlined."""

import re
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from pp3.harness.campaign import load
from pp3.harness.cells import Event
from pp3.harness.design import Method, design
from pp3.harness.power import detectable
from pp3.harness.report.judged import Judged
from pp3.harness.report.pictures.distances import device_picture, tickets_picture
from pp3.harness.report.pictures.ladder import Ladder, ladder, ladder_picture, too_good
from pp3.harness.report.pictures.law import BAND, law_picture, panel
from pp3.harness.report.pictures.lengths import lengths, lengths_picture
from pp3.harness.report.pictures.power import power_of, power_picture, resolution_picture
from pp3.harness.report.pictures.svg import INK, LAW, WARN, draw, label_of
from pp3.harness.report.pictures.timings import timings_picture
from pp3.harness.seed_example import holm
from pp3.harness.verdict import all_cells

CAMPAIGN = load(None, {"targets": ["sparse-tail", "disjoint"], "depths": [4], "requests": 40_000})
CHECKS = design(CAMPAIGN)
FIRST = next(one for one in CHECKS if one.id == "sparse-tail/depth-4/token/position-0")


def expected(shift: dict[str, Any] | None = None) -> Judged:
    """Counts that are the law's own, rounded, but for a share of one cell that is moved to its first outcome."""
    counts = {}
    for cell in all_cells(CAMPAIGN):
        law = cell.probabilities()
        if shift and cell.id.startswith(shift["cell"]):
            law = law * (1 - shift["share"])
            law[0] += shift["share"]
        counts[cell.id] = [*np.rint(40_000 * float(cell.rate) * law).astype(int).tolist(), 0]
    judged = Judged(
        checks=CHECKS,
        counts=counts,
        tests=[],
        vocabs={target.name: target.vocab for target in CAMPAIGN.targets},
        strays={},
        deviations={},
        alpha=1e-5,
        power=0.999,
    )
    tests = [judged.again(one).plain() for one in CHECKS]
    return Judged(**{name: getattr(judged, name) for name in Judged.__slots__} | {"tests": tests})


FITTING = expected()
SHIFTED = expected({"cell": "sparse-tail/depth-4/token/position-0", "share": 0.05})


def test_the_law_s_own_counts_have_no_residual() -> None:
    """Rounding is less than one event a group."""
    found = panel(FIRST, FITTING)
    assert np.abs(found.residual).max() < 1 / np.sqrt(found.expected.min()) * np.sqrt(len(FIRST.cells[0].groups))
    picture = law_picture("x", "title", [FIRST], FITTING)
    assert picture is not None
    assert "0 beyond ±3 sd" in picture.finding
    assert "none beyond the dashed" in picture.finding
    assert "var(--warn)" not in picture.svg


def test_a_residual_is_the_standardised_one() -> None:
    """(n - N p) / sqrt(N p (1 - p)) of each group, the most likely first."""
    found, pooled = panel(FIRST, SHIFTED), FIRST.cells[0]
    counts = np.bincount(pooled.groups, weights=SHIFTED.counts[pooled.cell.id][:-1])
    events = counts.sum()
    law = pooled.probabilities
    order = np.argsort(-law * events, kind="stable")
    assert found.residual == pytest.approx(((counts - events * law) / np.sqrt(events * law * (1 - law)))[order])
    assert (np.diff(found.expected) <= 0).all()


def test_a_large_residual_is_marked_named_and_listed() -> None:
    """By place, token and size, in the colour and with the mark of what lies outside."""
    picture = law_picture("x", "title", [FIRST], SHIFTED)
    found = panel(FIRST, SHIFTED)
    assert picture is not None
    worst = int(np.abs(found.residual).argmax())
    assert found.residual[worst] > 10
    assert f"the largest is {found.residual[worst]:+.1f} sd (tokens emitted at position 0, depth 4" in picture.finding
    assert found.outcome(worst) in picture.finding
    assert re.search(r"[1-9]\d* beyond the dashed ±", picture.finding)
    assert "var(--warn)" in picture.svg
    assert ("d4 token 0", found.outcome(worst)) in [row[:2] for row in picture.rows]


def test_the_bands_are_three_sd_and_the_family_s_level() -> None:
    """Of all residuals of the picture: alpha over twice their number, in each tail."""
    tokens = [one for one in CHECKS if one.event is Event.TOKEN and one.cells]
    picture = law_picture("x", "title", tokens, FITTING)
    assert picture is not None
    total = sum(len(panel(one, FITTING).residual) for one in tokens)
    assert f"Of {total:,} residuals" in picture.finding
    assert f"±{stats.norm.isf(1e-5 / (2 * total)):.1f}" in picture.finding
    assert f"about {total * 2 * stats.norm.sf(BAND):.1f}" in picture.finding


def test_holm_s_levels_are_holm_s() -> None:
    """With equal levels, p is at most its Holm level where Holm's adjusted p is at most alpha."""
    found = ladder(SHIFTED)
    assert found is not None
    equal = np.full(len(found.p), found.level.sum() / len(found.p))
    order = np.argsort(found.p, kind="stable")
    mine = equal * equal.sum() / np.cumsum(equal[::-1])[::-1]
    adjusted = holm(tuple(found.p[order].tolist()))
    rejected = np.cumprod(found.p[order] <= mine).astype(bool)
    assert rejected.tolist() == [p <= equal.sum() for p in adjusted]
    assert (found.holm >= found.level * (1 - 1e-12)).all()
    assert found.holm[0] == pytest.approx(found.level[0])


def test_both_tails_of_the_p_values_are_said() -> None:
    """What fails, and what fits too well: the law's own counts do, and the check of the fit says so."""
    bad, good = ladder_picture("x", SHIFTED), ladder_picture("x", FITTING)
    assert bad is not None
    assert good is not None
    assert str(bad.rows[0][0]) in bad.finding
    assert "reach their Holm levels" in bad.finding
    assert good.finding.startswith(f"1 of {len(good.rows)} p-values reach their Holm levels")
    assert "the strongest: fit, " in good.finding
    by_g = sum(test["method"] == "g" for _, test in FITTING.deciding)
    assert f"of {by_g} checks by G {by_g} are outside the band" in good.finding


def test_uniform_p_values_are_within_the_band() -> None:
    """Their expected order statistics, k / (m + 1)."""
    m = 200
    high = np.arange(1, m + 1) / (m + 1)
    one = Ladder(ids=[], p=high, level=high, holm=high, high=high)
    assert not too_good(one).any()
    assert too_good(Ladder(ids=[], p=high, level=high, holm=high, high=high / 1_000)).sum() > m / 2


@pytest.mark.parametrize("method", [Method.G, Method.BINOMIAL])
def test_a_curve_reaches_the_planned_power_at_what_is_seen(method: Method) -> None:
    """The curve and the smallest effect of harness/power.py are of one formula; a coin's counts are whole numbers."""
    checks = [one for one in CHECKS if one.decides and one.method is method and one.event is not Event.MATCH]
    if method is Method.BINOMIAL:
        checks = [one for one in CHECKS if one.decides and one.method is method]
    assert checks
    for one in checks[:10]:
        unit = detectable(one, 0.999)
        if unit.unit.value != "total variation":
            continue
        assert float(power_of(one, np.array([unit.size]))[0]) == pytest.approx(0.999, abs=1e-3)
        assert float(power_of(one, np.array([unit.size / 10]))[0]) < 0.1


def test_the_weakest_required_check_is_named() -> None:
    """Of each kind; and the spread of all is in the table."""
    picture, all_of = power_picture("x", FITTING), resolution_picture("x", FITTING)
    assert picture is not None
    assert all_of is not None
    sizes = [
        (float(test["detectable"]), one.id)
        for one, test in FITTING.deciding
        if one.required and one.method in (Method.G, Method.BINOMIAL)
    ]
    assert max(sizes)[1] in picture.finding
    assert f"{max(sizes)[0]:.3g}" in picture.finding
    assert sum(int(row[1]) for row in all_of.rows) + sum(
        test["unit"] not in ("total variation", "copied share") for _, test in FITTING.deciding
    ) == len(FITTING.deciding)


def test_the_lengths_have_exact_intervals() -> None:
    """Clopper and Pearson's, and the law lies in each where the counts are the law's own, and outside where not."""
    cells = [cell for cell in all_cells(CAMPAIGN) if cell.event is Event.LENGTH and cell.target == "sparse-tail"]
    own = lengths(4, cells, FITTING.counts)
    assert own is not None
    assert not own.missed.any()
    assert "each interval (99.9 %) holds the law" in lengths_picture("x", [own]).finding
    n, total = int(own.observed[0]), int(own.observed.sum())
    assert own.low[0] == pytest.approx(stats.binomtest(n, total).proportion_ci(0.999, "exact").low)
    moved = {cell.id: [total, *([0] * (len(cell.atoms)))] for cell in cells}
    other = lengths(4, cells, moved)
    assert other is not None
    assert other.missed.all()
    picture = lengths_picture("x", [other])
    assert "lies outside the interval (99.9 %) of 0, 1, 2, 3, 4 accepted" in picture.finding
    assert "0.0000 drafts accepted in the mean" in picture.finding
    assert lengths(4, cells, {cell.id: [0] * (len(cell.atoms) + 1) for cell in cells}) is None


def bridge(ratio: str, fault: str | None = None) -> dict[str, Any]:
    """One round of an oracle's receipt, as far as it is drawn."""
    largest = {"double": "0", "ratio": ratio}
    return {"bound": "1/1000", "depth": 4, "fault": fault, "largest": largest, "void": [0, 1]}


def test_distances_are_named_with_their_row_and_bound() -> None:
    """The furthest row in tickets, and rounds beyond their bound or with a fault."""
    rows = [
        {"emitted": [low, low], "largestRemainder": ["0.0000001", "0.0000001"], "moved": 3}
        for low in ("0.000001", "0.000002")
    ]
    policies: list[dict[str, Any]] = [
        {"distances": rows, "survey": {"bridges": [bridge("0/1"), bridge("1/2000")], "target": "tilt"}}
    ]
    tickets, device = tickets_picture("x", policies), device_picture("y", policies)
    assert "within 2e-06 in total variation of its ideal softmax (tilt, row 1), which is 33.6 of" in tickets.finding
    assert "but in" not in device.finding
    assert "at most 0.0005 away (tilt, depth 4), within the bound of 0.001, and exactly on it in 1" in device.finding
    policies[0]["survey"]["bridges"].append(bridge("1/10"))
    assert "but in 1" in device_picture("y", policies).finding
    assert "var(--warn)" in device_picture("y", policies).svg


def test_many_timings_are_pooled_by_step_and_said_so() -> None:
    """A curve a step, of all targets; the floor apart; rows of every timing in the table."""
    rows = [
        {"id": f"t{target}/depth-4/{step}", "samples": [1_000 * base + k for k in range(9)], "unit": "ns"}
        for target in range(5)
        for step, base in (("propose", 8), ("verify", 5))
    ]
    picture = timings_picture("x", rows)
    assert picture is not None
    assert "no launch floor was measured" in picture.finding
    assert len(picture.rows) == 10
    assert picture.note == "A curve has the samples of all targets; the table has each."
    assert timings_picture("x", []) is None


def test_a_drawing_is_fit_to_be_inlined() -> None:
    """Ids of its own, tokens for colours, no style sheet, no script, no link out, escaped names, the same bytes."""

    def plot(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], "o", color=INK, label="<b>&\"'</b>")
        axes.plot([0, 1], [1, 0], color=LAW)
        axes.plot([0, 1], [1, 0.5], "X", color=WARN)
        axes.legend()

    svg = draw("one", 'a "label" <b> & more', (3, 2), plot)
    assert svg == draw("one", 'a "label" <b> & more', (3, 2), plot)
    assert svg.startswith('<svg role="img" aria-label="a &quot;label&quot; &lt;b> &amp; more" ')
    assert set(re.findall(r'\bid="([^"]+)"', svg)) == {id for id in re.findall(r"(?:#)(one-\d+)", svg)}
    assert not re.search(r"<style|<script|<metadata|xlink|https?://(?!www\.w3\.org/2000/svg)|#[0-9a-f]{6}", svg)
    assert "&lt;b&gt;" in svg
    assert {"var(--law)", "var(--warn)", "currentColor"} <= set(re.findall(r"var\(--\w+\)|currentColor", svg))
    other = draw("two", "x", (3, 2), plot)
    assert not set(re.findall(r'\bid="([^"]+)"', svg)) & set(re.findall(r'\bid="([^"]+)"', other))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain-name", "plain-name"),
        ("a" * 40, "a" * 25 + "..."),
        ("\u202egnp", "\\u202egnp"),
        ("\U0001f469", "\\u1f469"),
        ("$x^2$", "$x^2$"),
    ],
)
def test_a_name_is_drawn_as_the_font_can(name: str, shown: str) -> None:
    """Nothing that turns the direction, needs a glyph that is not there, or is set as a formula."""
    assert label_of(name) == shown
