"""Observed against expected: counts of the pooled outcomes of a law, below it residuals of each place.

A residual is (observed - expected) / sd of a group of a check, given the events of its stratum; groups expect at least
`pool` events, so it is nearly normal. Band: three sd. Dashed: where chance alone puts one of all residuals of the
picture with the family's alpha (Bonferroni, two-sided).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from pp3.harness.battery import expected_of, grouped
from pp3.harness.cells import Event
from pp3.harness.design import Check
from pp3.harness.report.judged import Judged
from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WARN, WIDTH, Picture, draw, label_of
from pp3.harness.special import special
from pp3.harness.trial.findings import outcome_name

MOST_PANELS = 14  # of a picture
MOST_COLUMNS = 96  # of a panel
MOST_ROWS = 16  # of a panel, in the table
BAND = 3.0  # standard deviations
TITLED, LABELLED = 0.25, 0.28  # inches of the margins
MARGINS = {"left": 0.19, "right": 0.99}  # shares of the width
SHORT = {Event.TOKEN: "token {}", Event.FULL_TARGET: "invalid {}", Event.BONUS: "bonus"}
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The groups of one check, the most likely first."""

    place: str
    short: str  # the same, as there is room for
    observed: Floats  # [groups]
    expected: Floats
    residual: Floats
    check: Check
    at: list[tuple[int, int]]  # cell of the check and group in it, [groups]
    vocab: int

    def outcome(self, group: int) -> str:
        """What a group is, in words."""
        cell, inside = self.at[group]
        pooled = self.check.cells[cell]
        atoms = pooled.cell.atoms[pooled.groups == inside].tolist()
        where = "" if len(self.check.cells) == 1 else f" ({pooled.cell.pattern or f'context {pooled.cell.context}'})"
        return outcome_name(self.check.event, atoms, self.vocab, self.check.depth) + where


def panel(check: Check, judged: Judged) -> Panel:
    """The groups of a check that met any events."""
    parts: list[Floats] = []
    at: list[tuple[int, int]] = []
    for number, pooled in enumerate(check.cells):
        observed = grouped(pooled, judged.counts[pooled.cell.id])
        expected = expected_of(pooled, observed)
        met = np.flatnonzero(expected > 0)
        spread = np.sqrt(expected * (1 - pooled.probabilities))
        residual = np.divide(observed - expected, spread, out=np.zeros_like(expected), where=spread > 0)
        parts.append(np.stack([observed, expected, residual])[:, met])
        at += [(number, int(group)) for group in met]
    found = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0))
    order = np.argsort(-found[1], kind="stable")
    place, short = _names(check, judged)
    observed, expected, residual = found[:, order]
    return Panel(
        place=place,
        short=short,
        observed=observed,
        expected=expected,
        residual=residual,
        check=check,
        at=[at[group] for group in order],
        vocab=judged.vocabs.get(check.target, 0),
    )


def _names(check: Check, judged: Judged) -> tuple[str, str]:
    """Where a check looks, in words and shorter: of a target that has no drafts, the case."""
    place = judged.place(check)
    if not check.depth:
        return place, place.removeprefix("case ")
    word = SHORT.get(check.event, check.event.value).format(check.cells[0].cell.position if check.cells else "")
    return f"{place}, depth {check.depth}", f"d{check.depth} {word}"


def law_picture(name: str, title: str, checks: Sequence[Check], judged: Judged) -> Picture | None:
    """The first check's counts, and the residuals of every one; None if none met any events."""
    panels = [found for found in (panel(check, judged) for check in checks) if len(found.expected)]
    if not panels:
        return None
    shown = panels
    if len(panels) > MOST_PANELS:  # the worst, in their order
        worst = sorted(range(len(panels)), key=lambda at: -float(np.abs(panels[at].residual).max()))[:MOST_PANELS]
        shown = [panels[at] for at in sorted(worst)]
    total = sum(len(one.residual) for one in panels)
    limit = float(-special.ndtri(judged.alpha / (2 * total)))
    finding = _finding(panels, total, limit)

    def plot(figure: Figure) -> None:
        top, lanes = figure.subplots(2, 1, height_ratios=[1.2, 0.4 * len(shown)], gridspec_kw=MARGINS)
        _counts(top, shown[0])
        _lanes(lanes, shown, limit)

    size = (WIDTH, 2.1 + 0.4 * len(shown))
    return Picture(
        title=title,
        finding=finding,
        svg=draw(
            name,
            f"{title}: counts and residuals. {finding}",
            size,
            plot,
            TITLED,
            LABELLED,
        ),
        head=("place", "outcome", "observed", "expected", "residual / sd"),
        rows=[row for one in panels for row in _rows(one)],
        note=_note(panels, shown),
    )


def _finding(panels: Sequence[Panel], total: int, limit: float) -> str:
    worst = max(panels, key=lambda one: float(np.abs(one.residual).max()))
    at = int(np.abs(worst.residual).argmax())
    beyond = sum(int((np.abs(one.residual) > BAND).sum()) for one in panels)
    outside = sum(int((np.abs(one.residual) > limit).sum()) for one in panels)
    chance = total * 2 * float(special.ndtr(-BAND))
    judgement = (
        f"{outside:,} beyond the dashed ±{limit:.1f}, where chance puts none"
        if outside
        else f"none beyond the dashed ±{limit:.1f}"
    )
    return (
        f"Of {total:,} residuals the largest is {worst.residual[at]:+.1f} sd ({worst.place}, {worst.outcome(at)}: "
        f"{worst.observed[at]:,.0f} seen, {worst.expected[at]:,.1f} expected); {beyond:,} beyond ±3 sd, where "
        f"chance puts about {chance:.1f}; {judgement}."
    )


def _note(panels: Sequence[Panel], shown: Sequence[Panel]) -> str:
    said = []
    if len(shown) < len(panels):
        said.append(f"Drawn: the {len(shown)} of {len(panels)} places with the largest residuals.")
    wide = max(len(one.expected) for one in shown)
    if wide > MOST_COLUMNS:
        said.append(f"Up to {wide:,} groups are drawn as {MOST_COLUMNS} columns of neighbours, each with its worst.")
    if any(len(one.expected) > MOST_ROWS for one in panels):
        said.append(f"The table has the {MOST_ROWS} largest residuals of each place.")
    return " ".join(said)


def _rows(one: Panel) -> list[tuple[str | int, ...]]:
    largest = sorted(np.argsort(-np.abs(one.residual), kind="stable")[:MOST_ROWS].tolist())
    return [
        (one.short, one.outcome(at), int(one.observed[at]), f"{one.expected[at]:.1f}", f"{one.residual[at]:+.2f}")
        for at in largest
    ]


def _columns(one: Panel) -> tuple[Floats, Floats, Floats]:
    """Observed, expected and residual of each column: neighbours are added, of residuals the largest is kept."""
    groups = len(one.expected)
    if groups <= MOST_COLUMNS:
        return one.observed, one.expected, one.residual
    starts = np.linspace(0, groups, MOST_COLUMNS, endpoint=False).astype(int)
    worst = [part[np.abs(part).argmax()] for part in np.split(one.residual, starts[1:])]
    return np.add.reduceat(one.observed, starts), np.add.reduceat(one.expected, starts), np.array(worst)


def _counts(axes: Axes, one: Panel) -> None:
    observed, expected, _ = _columns(one)
    x = np.arange(len(expected))
    edges = np.append(x - 0.5, x[-1] + 0.5)
    axes.stairs(expected, edges, fill=True, color=LAW, alpha=0.3, label="exact law")
    axes.stairs(expected, edges, color=LAW, linewidth=0.8)
    axes.plot(x, observed, "o", color=INK, markersize=2.4, label="observed")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlim(-0.7, len(x) - 0.3)
    axes.set_ylim(0, 1.4 * max(float(observed.max()), float(expected.max())))
    axes.set_xticks([])
    axes.set_ylabel("events")
    axes.set_title(label_of(one.place, 60))
    axes.legend(loc="upper right", ncols=2)


def _lanes(axes: Axes, shown: Sequence[Panel], limit: float) -> None:
    """Residuals of one place below those of the one before, each in a lane of height 1."""
    drawn = [_columns(one)[2] for one in shown]
    reach = max(limit * 1.1, *(float(np.abs(one.residual).max()) for one in shown)) * 2.1
    widest = max(map(len, drawn))
    middle = -np.arange(len(drawn), dtype=np.float64)
    ends = np.tile([-0.6, widest - 0.4, np.nan], len(drawn))
    for level, dash in ((0.0, "-"), (limit, "--"), (-limit, "--")):
        axes.plot(ends, np.repeat(middle + level / reach, 3), color=SOFT, linewidth=0.5, linestyle=dash)
    half = BAND / reach
    lanes = [[(-0.6, y - half), (widest - 0.4, y - half), (widest - 0.4, y + half), (-0.6, y + half)] for y in middle]
    axes.add_collection(PolyCollection(lanes, facecolors=LAW, alpha=0.14, linewidths=0))
    x = np.concatenate([(np.arange(len(one)) + 0.5) * (widest / len(one)) - 0.5 for one in drawn])
    start = np.repeat(middle, [len(one) for one in drawn])
    residual = np.concatenate(drawn)
    y = start + residual / reach
    stems = np.full(3 * len(x), np.nan)
    stems[0::3], stems[1::3] = start, y
    axes.plot(np.repeat(x, 3), stems, color=INK, linewidth=0.7)
    far = np.abs(residual)
    for where, mark, colour, size in (
        (far <= BAND, ".", INK, 3.2),
        ((far > BAND) & (far <= limit), "D", WARN, 3.5),
        (far > limit, "X", WARN, 6),
    ):
        if where.any():
            axes.plot(x[where], y[where], mark, color=colour, markersize=size, markeredgewidth=0)
    axes.set_yticks(middle, [label_of(one.short, 15) for one in shown], fontsize=8)
    axes.set_ylim(0.38 - len(shown), 0.62)
    axes.set_xlim(-0.7, widest - 0.3)
    axes.set_xticks([])
    axes.set_xlabel("pooled outcomes, the most likely first")
