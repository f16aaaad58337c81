"""The law of the number of accepted drafts, the shares observed with exact intervals, and their ratio.

Intervals are Clopper and Pearson's, 99.9 % each. Requests of several patterns are taken together: the sum of their
Bernoulli trials varies less than one binomial of their mean (Hoeffding 1956), so the interval holds at least as often.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pp3.harness.battery import CONFIDENCE
from pp3.harness.bounds import binomial_interval
from pp3.harness.cells import Cell
from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WARN, WIDTH, Picture, draw

TITLE = "Accepted drafts: law and exact intervals"
LEGEND = 0.25  # inches above the axes
MARGINS = {"left": 0.16, "right": 0.99}  # shares of the width
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Numbers of accepted drafts at one depth."""

    depth: int
    observed: npt.NDArray[np.int64]  # [depth + 1]
    law: Floats  # shares
    low: Floats
    high: Floats

    @property
    def missed(self) -> npt.NDArray[np.bool_]:
        """Where the law lies outside the interval."""
        return (self.law < self.low) | (self.law > self.high)


def lengths(depth: int, cells: Sequence[Cell], counts: dict[str, list[int]]) -> Lengths | None:
    """Of the cells of all patterns of one target; None if they met no events."""
    observed, expected = np.zeros(depth + 1, np.int64), np.zeros(depth + 1)
    for cell in cells:
        found = np.asarray(counts[cell.id][:-1], np.int64)
        observed[cell.atoms] += found
        expected[cell.atoms] += found.sum() * cell.probabilities()
    total = int(observed.sum())
    if not total:
        return None
    ends = np.array([binomial_interval(int(hits), total, CONFIDENCE) for hits in observed])
    return Lengths(depth=depth, observed=observed, law=expected / total, low=ends[:, 0], high=ends[:, 1])


def lengths_picture(name: str, found: Sequence[Lengths]) -> Picture:
    """One panel a depth."""
    finding = " ".join(_finding(one) for one in found)

    def plot(figure: Figure) -> None:
        shares, ratios = figure.subplots(2, 1, height_ratios=(3, 2), sharex=True, gridspec_kw=MARGINS)
        ticks: dict[float, str] = {}
        for at, one in enumerate(found):
            x = len(ticks) + at * 0.8 + np.arange(one.depth + 1, dtype=np.float64)
            ticks |= {float(place): str(j) for j, place in enumerate(x)}
            _shares(shares, x, one, first=not at)
            _ratios(ratios, x, one)
        shares.set_ylim(bottom=0, top=1.35 * max(float(max(one.law.max(), one.high.max())) for one in found))
        shares.set_ylabel("share of requests")
        shares.legend(loc="lower right", bbox_to_anchor=(1, 0.95), ncols=2)
        ratios.set_ylabel("seen / law")
        ratios.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
        ratios.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}")
        for axes in (shares, ratios):
            axes.yaxis.set_label_coords(-0.14, 0.5)
        ratios.set_xticks(list(ticks), list(ticks.values()))
        ratios.set_xlabel("drafts accepted")

    return Picture(
        title=TITLE,
        finding=finding,
        svg=draw(name, f"{TITLE}. {finding}", (WIDTH, 3.4), plot, LEGEND),
        head=("depth", "accepted", "seen", "share seen", "from", "to", "law"),
        rows=[
            (
                one.depth,
                j,
                int(one.observed[j]),
                *(f"{value:.5f}" for value in (one.observed[j] / total, one.low[j], one.high[j], one.law[j])),
            )
            for one in found
            for total in [int(one.observed.sum())]
            for j in range(one.depth + 1)
        ],
    )


def _finding(one: Lengths) -> str:
    j, total = np.arange(one.depth + 1), int(one.observed.sum())
    seen, law = float((one.observed * j).sum()) / total, float((one.law * j).sum())
    missed = np.flatnonzero(one.missed).tolist()
    outside = (
        f"the law lies outside the interval (99.9 %) of {', '.join(map(str, missed))} accepted"
        if missed
        else "each interval (99.9 %) holds the law"
    )
    return f"Depth {one.depth}: {seen:.4f} drafts accepted in the mean, {law:.4f} by the law; {outside}."


def _shares(axes: Axes, x: Floats, one: Lengths, first: bool) -> None:
    axes.bar(x, one.law, width=0.75, color=LAW, alpha=0.3, label="exact law" if first else None)
    _intervals(axes, x, one, one.observed / one.observed.sum(), one.low, one.high, "seen, 99.9 %" if first else None)
    place = axes.get_xaxis_transform()
    axes.text(x[0] - 0.4, 0.98, f"depth {one.depth}", fontsize=8, va="top", transform=place)


def _ratios(axes: Axes, x: Floats, one: Lengths) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        seen, low, high = (part / one.law for part in (one.observed / one.observed.sum(), one.low, one.high))
    axes.plot([x[0] - 0.4, x[-1] + 0.4], [1, 1], color=SOFT, linewidth=0.7, linestyle="--")
    _intervals(axes, x, one, seen, low, high, None)


def _intervals(
    axes: Axes, x: Floats, one: Lengths, middle: Floats, low: Floats, high: Floats, label: str | None
) -> None:
    drawn = one.law > 0
    for where, mark, colour, size in ((drawn & ~one.missed, "o", INK, 3), (drawn & one.missed, "X", WARN, 6)):
        if where.any():
            ends = np.stack([(middle - low)[where], (high - middle)[where]])
            axes.errorbar(
                x[where], middle[where], yerr=ends, fmt=mark, color=colour, markersize=size, linewidth=1, label=label
            )
            label = None
