"""Receipts in their order of time: what each would have seen, and how near to failing its nearest check came."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pp3.harness.report.entries import Entry
from pp3.harness.report.pictures.svg import GOOD, INK, SOFT, WARN, WIDTH, Picture, draw

SHAPES = {"PASS": "o", "TOLERATED": "D", "FAIL": "X", "INVALID": "P", "INCONCLUSIVE": "^"}
COLOURS = {"PASS": GOOD, "TOLERATED": GOOD, "FAIL": WARN, "INVALID": WARN}
OTHER = "s"
LEAST = 1e-12  # of a p-value over its level: drawn no smaller
MOST_DATES = 10  # that are written below; of more, numbers
LEGEND = 0.3  # inches above the axes
BELOW = 0.8, 0.45  # for dates, for numbers
WIDE = 5  # the largest value over the smallest, beyond which a scale is logarithmic
MOST_GROUPS = 3  # whose receipts are joined by lines
Floats = npt.NDArray[np.float64]
SEES, NEAREST = "What each receipt would have seen", "How near its nearest check came to failing"


def sequence_pictures(name: str, rows: Sequence[Entry]) -> list[Picture]:
    """Two pictures; none of what no receipt says."""
    found = []
    if any(row.resolution for row in rows):
        found.append(_picture(f"{name}-sees", SEES, rows, lambda row: row.resolution, "total variation", 0.0))
    if any(row.nearest is not None for row in rows):
        found.append(_picture(f"{name}-p", NEAREST, rows, lambda row: row.nearest, "p-value / its level", 1.0))
    return found


def _picture(
    name: str,
    title: str,
    rows: Sequence[Entry],
    value_of: Callable[[Entry], float | None],
    unit: str,
    line: float,
) -> Picture:
    values = [value_of(row) for row in rows]
    held = [value for value in values if value is not None]
    below = BELOW[len(rows) > MOST_DATES]
    changes = _changes(rows)
    finding = _finding(rows, values, unit, line)
    if changes:
        finding += f" Lines are broken where the environment changes: {len(changes):,} time{'s' * (len(changes) != 1)}."

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.19, "right": 0.98})
        drawn = np.array([np.nan if value is None else max(value, LEAST) for value in values])
        _lines(axes, rows, drawn)
        for at in changes:
            axes.axvline(at - 0.5, color=SOFT, linewidth=0.7, linestyle=":")
        _marks(axes, rows, drawn)
        if line:
            axes.axhline(line, color=WARN, linewidth=0.8, linestyle="--")
            axes.text(-0.4, line, "fails at or below", color=SOFT, fontsize=7, va="bottom")
        low, high = max(min([*held, line] if line else held), LEAST), max([*held, line])
        if line or high > WIDE * low:
            axes.set_yscale("log")
            axes.set_ylim(low / 10 if line else low / 3, high * 10 if line else high * 3)
            axes.yaxis.set_minor_locator(NullLocator())
        else:
            axes.set_ylim(0, high * 1.25)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlim(-0.6, len(rows) - 0.4)
        axes.set_ylabel(unit)
        _dates(axes, rows)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.98), ncols=4, columnspacing=1.0, handletextpad=0.2)

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 2.3 + below), plot, LEGEND, below),
        head=("no.", "measured", "judged", "verdict", unit, "state"),
        rows=[
            (at + 1, row.measured, row.judged, row.verdict, "" if value is None else f"{value:.4g}", row.state)
            for at, (row, value) in enumerate(zip(rows, values, strict=True))
        ],
    )


def _finding(rows: Sequence[Entry], values: Sequence[float | None], unit: str, line: float) -> str:
    """The range of the values; where a line is crossed, which receipt lies lowest."""
    held = [(value, row) for value, row in zip(values, rows, strict=True) if value is not None]
    low, high = min(held, key=lambda one: one[0]), max(held, key=lambda one: one[0])
    if line:
        failed = sum(value <= line for value, _ in held)
        far = (
            f"{low[0]:,.0f} times"
            if low[0] > 1
            else f"{low[0]:.2g} of"
            if low[0] > LEAST
            else f"less than {LEAST:g} of"
        )
        reached = f"{failed:,} of {len(held):,} have a check that reaches its level"
        return f"{reached}; the smallest p-value is {far} its level, {low[1].measured}."
    if low[0] == high[0]:
        return f"{unit.capitalize()} {low[0]:.3g} in each."
    return f"{unit.capitalize()} from {low[0]:.3g} ({low[1].measured}) to {high[0]:.3g} ({high[1].measured})."


def _changes(rows: Sequence[Entry]) -> list[int]:
    """Places of receipts whose environment is another than that of the one before, in a history of one sampler."""
    if len({row.group for row in rows}) > 1:
        return []
    return [at for at in range(1, len(rows)) if rows[at].environment != rows[at - 1].environment]


def _lines(axes: Axes, rows: Sequence[Entry], drawn: Floats) -> None:
    """Join what is of one sampler in one environment, and stands."""
    last: dict[tuple[str, str], int] = {}
    if len({row.group for row in rows}) > MOST_GROUPS:
        return
    for at, row in enumerate(rows):
        if row.superseded or row.altered or np.isnan(drawn[at]):
            continue
        before = last.get(row.group)
        if before is not None and rows[before].environment == row.environment:
            axes.plot([before, at], [drawn[before], drawn[at]], color=SOFT, linewidth=0.7)
        last[row.group] = at


def _marks(axes: Axes, rows: Sequence[Entry], drawn: Floats) -> None:
    """Verdict by shape and colour; superseded and altered ones hollow."""
    for hollow in (False, True):
        for verdict in dict.fromkeys(row.verdict for row in rows):
            mine = [
                at
                for at, row in enumerate(rows)
                if row.verdict == verdict and bool(row.superseded or row.altered) is hollow and not np.isnan(drawn[at])
            ]
            colour, shape = COLOURS.get(verdict, INK), SHAPES.get(verdict, OTHER)
            label = "hollow: superseded" if hollow else verdict if verdict in SHAPES else "other"
            known = label in axes.get_legend_handles_labels()[1]
            if mine:
                axes.plot(
                    mine,
                    drawn[mine],
                    shape,
                    color=colour,
                    markersize=6,
                    markerfacecolor="none" if hollow else colour,
                    label=None if known else label,
                )


def _dates(axes: Axes, rows: Sequence[Entry]) -> None:
    if len(rows) > MOST_DATES:
        axes.set_xlabel("receipts, oldest first (numbers as in the table)")
        return
    labels = [row.measured[5:16].replace("T", " ") for row in rows]
    axes.set_xticks(range(len(rows)), labels, rotation=30, ha="right")
