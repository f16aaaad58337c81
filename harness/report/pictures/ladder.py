"""Sorted p-values against their Holm levels, and the other tail: fits that are too good.

Each check is held to a level of its own, fixed before the run. Holm's (1979), with these as weights, is no smaller: of
check i, level_i times the sum of all levels over the sum of those that are not rejected before it. The band holds the
k-th smallest of m independent uniform p-values with 99.9 % each: Beta(k, m - k + 1). Checks of one campaign are not
quite independent.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pp3.harness import tails
from pp3.harness.design import Method
from pp3.harness.report.judged import Judged
from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WARN, WIDTH, Picture, draw

LEGEND = 0.25  # inches above the axes
LEAST = 1e-16  # p-values are drawn no smaller
STEP = 1e-6  # 1 - p is drawn no smaller: a stored p-value has six digits
SIDE = 0.0005  # outside the band, of each side
BAND_POINTS = 60
MOST_ROWS = 500
TITLE = "Sorted p-values against their Holm levels, both tails"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """All p-values of a receipt, nearest to its level first."""

    ids: list[str]
    p: Floats
    level: Floats
    holm: Floats
    high: Floats  # 1 - p of the checks by G, ascending: others pile up at 1 by construction


def ladder(judged: Judged) -> Ladder | None:
    """None if no check could decide anything."""
    rows = [(float(test["p"]), float(test["alpha"]), test) for _, test in judged.deciding]
    if not rows:
        return None
    rows.sort(key=lambda row: (row[0] / row[1], row[2]["id"]))
    level = np.array([row[1] for row in rows])
    return Ladder(
        ids=[row[2]["id"] for row in rows],
        p=np.array([row[0] for row in rows]),
        level=level,
        holm=level * level.sum() / np.cumsum(level[::-1])[::-1],
        high=np.sort(np.array([1 - row[0] for row in rows if row[2]["method"] == Method.G])),
    )


def ladder_picture(name: str, judged: Judged) -> Picture | None:
    """Both tails of all p-values; None if no check could decide anything."""
    found = ladder(judged)
    if found is None:
        return None
    finding = _finding(found)

    def plot(figure: Figure) -> None:
        low, high = figure.subplots(2, 1, height_ratios=(3, 2), gridspec_kw={"left": 0.15, "right": 0.98})
        order = np.argsort(found.p, kind="stable")
        _tail(low, found.p[order], LEAST, (found.p <= found.level)[order], float(found.holm.min()))
        rank = np.arange(1, len(order) + 1)
        low.plot(rank, np.maximum(found.holm[order], LEAST), "_", color=WARN, markersize=5, label="Holm level")
        low.set_ylabel("p-value")
        low.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.98), ncols=3)
        _tail(high, found.high, STEP, too_good(found), 1.0)
        high.set_ylabel("1 - p (of G)")
        high.set_xlabel("rank")

    rows = zip(found.ids, found.p, found.level, found.holm, strict=True)
    return Picture(
        title=TITLE,
        finding=finding,
        svg=draw(name, f"{TITLE}. {finding}", (WIDTH, 5.2), plot, LEGEND),
        head=("check", "p", "held to", "Holm level"),
        rows=[(id, f"{p:.6g}", f"{level:.3g}", f"{holm:.3g}") for id, p, level, holm in list(rows)[:MOST_ROWS]],
        note=f"The table has the {MOST_ROWS} nearest to their levels." if len(found.ids) > MOST_ROWS else "",
    )


def too_good(found: Ladder) -> npt.NDArray[np.bool_]:
    """Which of the highest p-values lie outside the band of as many uniform ones, on the side of good fits."""
    return found.high < _band(len(found.high))[0]


def _band(count: int) -> tuple[Floats, Floats]:
    k, rest = np.arange(1, count + 1), np.arange(count, 0, -1)
    return tails.beta_ppf(SIDE, k, rest), tails.beta_isf(SIDE, k, rest)


def _finding(found: Ladder) -> str:
    below = int((found.p <= found.level).sum())
    crossing = int((found.p <= found.holm).sum())
    first = f"{found.ids[0]}, p = {found.p[0]:.3g} against {found.holm[0]:.3g}"
    said = (
        f"{crossing} of {len(found.p)} p-values reach their Holm levels, {below} the levels that decide; "
        f"the strongest: {first}."
        if crossing
        else f"No p-value of {len(found.p)} reaches its Holm level; the nearest: {first}."
    )
    good = int(too_good(found).sum())
    upper = f"{good} are outside the band" if good else "all are within the band"
    return f"{said} Too good a fit: of {len(found.high)} checks by G {upper} of uniform p-values (99.9 % each)."


def _tail(axes: Axes, values: Floats, least: float, marked: npt.NDArray[np.bool_], lowest: float) -> None:
    """Ascending values on a log scale, the line and the band of uniform ones, and some that are marked."""
    count = len(values)
    rank = np.arange(1, count + 1)
    if count:
        low, high = _band(count)
        some = np.unique(np.geomspace(1, count, BAND_POINTS).astype(int)) - 1
        axes.fill_between(rank[some], np.maximum(low, least)[some], high[some], color=LAW, alpha=0.16, linewidth=0)
        axes.plot([1, count], [1 / (count + 1), count / (count + 1)], color=LAW, label="uniform, 99.9 % each")
    drawn = np.maximum(values, least)
    axes.plot(rank[~marked], drawn[~marked], ".", color=INK, markersize=3, label="check")
    axes.plot(rank[marked], drawn[marked], "X", color=WARN, markersize=5.5, markeredgewidth=0)
    if (values < least).any():
        axes.text(1, least, f" drawn at {least:g}: that or less", color=SOFT, fontsize=7, va="bottom")
    axes.set_xscale("log")
    axes.set_yscale("log")
    if count:
        axes.set_ylim(max(least, min(lowest, float(drawn.min()))) / 3, 2)
    else:
        axes.set(xlim=(1, 10), ylim=(least, 2))  # a log scale has none of its own
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: f"{value:g}")
