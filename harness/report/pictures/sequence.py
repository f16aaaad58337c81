"""Receipts in their order of time: what each would have seen, and how near to failing its nearest check came."""

from collections.abc import Callable, Sequence

import numpy as np
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
BELOW = 0.8  # for dates
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
    changes = _changes(rows)
    finding = _finding(rows, values, unit, line)
    if changes:
        finding += f" Lines are broken where the environment changes: {len(changes):,} time{'s' * (len(changes) != 1)}."

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.15, "right": 0.98})
        drawn = np.array([np.nan if value is None else max(value, LEAST) for value in values])
        _lines(axes, rows, drawn)
        for at in changes:
            axes.axvline(at - 0.5, color=SOFT, linewidth=0.7, linestyle=":")
        _marks(axes, rows, drawn)
        if line:
            axes.axhline(line, color=WARN, linewidth=0.8, linestyle="--")
            axes.text(-0.4, line, "fails at or below", color=SOFT, fontsize=7, va="bottom")
        if line:
            axes.set_yscale("log")
            axes.set_ylim(max(min([*held, line]), LEAST) / 10, max([*held, line]) * 10)
            axes.yaxis.set_minor_locator(NullLocator())
        else:
            axes.set_ylim(0, max(held) * 1.25)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlim(-0.6, len(rows) - 0.4)
        axes.set_ylabel(unit)
        _dates(axes, rows)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.98), ncols=4)

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 3.0 if len(rows) <= MOST_DATES else 2.7), plot, LEGEND, BELOW),
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
        share = f"{low[0]:.3g} of its level" if low[0] > LEAST else f"less than {LEAST:g} of its level"
        return f"{failed:,} of {len(held):,} have a check that reaches its level; the smallest p-value: {share}, {low[1].measured}."
    if low[0] == high[0]:
        return f"{unit.capitalize()} {low[0]:.3g} in each."
    return f"{unit.capitalize()} from {low[0]:.3g} ({low[1].measured}) to {high[0]:.3g} ({high[1].measured})."


def _changes(rows: Sequence[Entry]) -> list[int]:
    """Places of receipts whose environment is another than that of the one before, in a history of one sampler."""
    if len({row.group for row in rows}) > 1:
        return []
    return [at for at in range(1, len(rows)) if rows[at].environment != rows[at - 1].environment]


def _lines(axes: Axes, rows: Sequence[Entry], drawn: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> None:
    """Join what is of one sampler in one environment, and stands."""
    last: dict[tuple[str, str], int] = {}
    for at, row in enumerate(rows):
        if row.superseded or row.altered or np.isnan(drawn[at]):
            continue
        before = last.get(row.group)
        if before is not None and rows[before].environment == row.environment:
            axes.plot([before, at], [drawn[before], drawn[at]], color=SOFT, linewidth=0.7)
        last[row.group] = at


def _marks(axes: Axes, rows: Sequence[Entry], drawn: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> None:
    """Verdict by shape and colour; superseded and altered ones hollow."""
    hollow = [bool(row.superseded) or row.altered for row in rows]
    for verdict in dict.fromkeys(row.verdict for row in rows):
        colour, shape = COLOURS.get(verdict, INK), SHAPES.get(verdict, OTHER)
        label = verdict if verdict in SHAPES else "other"
        for empty in (False, True):
            mine = [
                at
                for at, row in enumerate(rows)
                if row.verdict == verdict and hollow[at] is empty and not np.isnan(drawn[at])
            ]
            if mine:
                axes.plot(
                    mine,
                    drawn[mine],
                    shape,
                    color=colour,
                    markersize=6,
                    markerfacecolor="none" if empty else colour,
                    label=f"{label}, superseded" if empty else label,
                )


def _dates(axes: Axes, rows: Sequence[Entry]) -> None:
    if len(rows) > MOST_DATES:
        axes.set_xlabel("receipts, oldest first (numbers as in the table)")
        return
    labels = [row.measured[5:16].replace("T", " ") for row in rows]
    axes.set_xticks(range(len(rows)), labels, rotation=30, ha="right")
