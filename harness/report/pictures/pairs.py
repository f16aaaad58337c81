"""Two samples of one cell, count beside count, and the p-values of all such tests against Holm's level."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WARN, WIDTH, Picture, draw

MOST_OUTCOMES = 30  # the most frequent of both; the rest are one
LEAST = 1e-16  # p-values are drawn no smaller
SPREADS = 3  # standard deviations of a difference that are shaded
MOST_ROWS = 500
LEGEND = 0.28  # inches above the axes
SIDES = {"left": 0.13, "right": 0.98}
TITLE = "Sorted p-values of the two-sample tests"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The counts of one cell in two receipts."""

    name: str
    outcomes: Sequence[str]  # what all but the last count stand for; the last is of all that its law forbids
    old: Sequence[int]
    new: Sequence[int]
    p: float
    holm: float
    differs: bool


def pair_picture(name: str, pair: Pair) -> Picture:
    """Shares of each outcome in both, most frequent first, and their difference in standard deviations."""
    labels, counts = _grouped(pair)
    totals = counts.sum(axis=1)
    shares = counts / np.maximum(totals, 1)[:, None]
    score = _score(counts, totals)
    worst = int(np.abs(score).argmax())
    finding = (
        f"{labels[worst].capitalize()} moves furthest: {shares[0, worst]:.4g} of {int(totals[0]):,} in OLD, "
        f"{shares[1, worst]:.4g} of {int(totals[1]):,} in NEW, {score[worst]:+.1f} standard deviations. "
        f"Two-sample p = {pair.p:.2g}, by Holm {pair.holm:.2g}: "
        f"{'two laws' if pair.differs else 'no evidence of two laws'}."
    )

    def plot(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2), gridspec_kw=SIDES)
        x = np.arange(len(labels))
        top.plot(x - 0.12, shares[0], "o", color=INK, markerfacecolor="none", markersize=5, label="OLD")
        top.plot(x + 0.12, shares[1], "D", color=LAW, markersize=3.5, label="NEW")
        top.set_ylabel("share")
        top.set_ylim(0, float(shares.max()) * 1.1 + 1e-12)
        top.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.98), ncols=2)
        bottom.axhspan(-SPREADS, SPREADS, color=SOFT, alpha=0.15, linewidth=0)
        bottom.axhline(0, color=SOFT, linewidth=0.6)
        far = np.abs(score) > SPREADS
        bottom.vlines(x, 0, score, color=SOFT, linewidth=0.8)
        bottom.plot(x[~far], score[~far], ".", color=INK, markersize=4)
        bottom.plot(x[far], score[far], "X", color=WARN, markersize=5.5, markeredgewidth=0)
        limit = max(SPREADS + 1.0, float(np.abs(score).max()) * 1.15)
        bottom.set_ylim(-limit, limit)
        bottom.set_ylabel("NEW - OLD, sd")
        bottom.set_xlabel("outcomes, most frequent first")
        bottom.set_xticks([])

    rows = zip(labels, counts[0], counts[1], score, strict=True)
    rest = sum(a + b > 0 for a, b in zip(pair.old, pair.new, strict=True)) - MOST_OUTCOMES + 1
    return Picture(
        title=pair.name,
        finding=finding,
        svg=draw(name, f"{pair.name}. {finding}", (WIDTH, 3.4), plot, LEGEND),
        head=("outcome", "OLD", "NEW", "difference / sd"),
        rows=[(label, f"{int(a):,}", f"{int(b):,}", f"{z:+.2f}") for label, a, b, z in rows],
        note=f"The {rest:,} rarest outcomes are one." if rest > 1 else "",
    )


def holm_picture(name: str, tests: Sequence[tuple[str, float, float]], alpha: float) -> Picture:
    """All tests by id, p-value and Holm's adjusted p-value; those at or below `alpha` by Holm are marked."""
    ordered = sorted(tests, key=lambda test: (test[1], test[0]))
    p = np.array([test[1] for test in ordered])
    far = np.array([test[2] for test in ordered]) <= alpha
    first = ordered[0]
    finding = (
        f"{int(far.sum()):,} of {len(p):,} cells come from two laws at {alpha:g} in all; the nearest: "
        f"{first[0]}, p = {first[1]:.2g}, by Holm {first[2]:.2g}."
    )

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.15, "right": 0.98})
        rank = np.arange(1, len(p) + 1)
        drawn = np.maximum(p, LEAST)
        axes.plot(rank, rank / (len(p) + 1), color=LAW, label="uniform: one law")
        axes.plot(rank, alpha / (len(p) - rank + 1), color=WARN, linestyle="--", label="Holm level")
        axes.plot(rank[~far], drawn[~far], ".", color=INK, markersize=4, label="cell")
        axes.plot(rank[far], drawn[far], "X", color=WARN, markersize=5.5, markeredgewidth=0)
        if (p < LEAST).any():
            axes.text(len(p), LEAST, f"drawn at {LEAST:g}: that or less", color=SOFT, fontsize=7, ha="right")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(min(float(drawn.min()), alpha / len(p)) / 3, 2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylabel("p-value")
        axes.set_xlabel("rank")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.98), ncols=3)

    return Picture(
        title=TITLE,
        finding=finding,
        svg=draw(name, f"{TITLE}. {finding}", (WIDTH, 3.4), plot, LEGEND),
        head=("cell", "p", "by Holm"),
        rows=[(id, f"{value:.3g}", f"{adjusted:.3g}") for id, value, adjusted in ordered[:MOST_ROWS]],
        note=f"The table has the {MOST_ROWS} smallest." if len(ordered) > MOST_ROWS else "",
    )


def _grouped(pair: Pair) -> tuple[list[str], Floats]:
    """Names and counts [2, outcomes] of outcomes that came, most frequent in both first; the rarest are one."""
    counts, names = np.array([pair.old, pair.new], np.float64), [*pair.outcomes, "forbidden by the law"]
    came = counts.sum(axis=0) > 0
    counts, names = counts[:, came], [name for name, seen in zip(names, came, strict=True) if seen]
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    if len(order) <= MOST_OUTCOMES:
        return [names[at] for at in order], counts[:, order]
    kept, rest = order[: MOST_OUTCOMES - 1], order[MOST_OUTCOMES - 1 :]
    return [*(names[at] for at in kept), "the rest"], np.column_stack([counts[:, kept], counts[:, rest].sum(axis=1)])


def _score(counts: Floats, totals: Floats) -> Floats:
    """Difference of the shares, each over its standard deviation under the share of both samples together."""
    safe = np.maximum(totals, 1)
    both = counts.sum(axis=0) / max(float(totals.sum()), 1)
    spread = np.sqrt(np.maximum(both * (1 - both), 1e-300) * (1 / safe[0] + 1 / safe[1]))
    return np.where(both > 0, (counts[1] / safe[1] - counts[0] / safe[0]) / spread, 0.0)
