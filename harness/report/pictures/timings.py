"""Timings as empirical distribution functions, beside the launch floor where it was measured in the same run.

Timings are never part of a verdict, and compare only within one run: the tails are drawn, not a mean.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pp3.harness.regression.timings import interval
from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WIDTH, Picture, draw, label_of, log_axis

FLOOR = "floor"  # stands in the id of the timing of empty launches
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MOST_CURVES, MOST_STEPS = 8, 200
QUANTILES = (0.5, 0.9, 0.99)
TITLE = "Timings, as distribution functions"


def timings_picture(name: str, timings: Sequence[dict[str, Any]]) -> Picture | None:
    """One curve a timing; None of a receipt without any."""
    rows = [row for row in timings if row["samples"]]
    if not rows:
        return None
    floors = [row for row in rows if FLOOR in row["id"]]
    others = sorted((row for row in rows if FLOOR not in row["id"]), key=lambda row: float(np.median(row["samples"])))
    curves = [*floors, *(others if len(others) <= MOST_CURVES else _pooled(others))]
    drawn = curves[:MOST_CURVES]
    finding = _finding(floors, others)

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.12, "right": 0.64})
        for at, row in enumerate(drawn):
            ordered = np.sort(np.asarray(row["samples"], np.float64)) / 1000
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            if len(ordered) > MOST_STEPS:
                kept = np.unique(np.linspace(0, len(ordered) - 1, MOST_STEPS).astype(int))
                ordered, share = ordered[kept], share[kept]
            floor = FLOOR in row["id"]
            axes.step(
                ordered,
                share,
                where="post",
                color=SOFT if floor else LAW if at % 2 else INK,
                linewidth=2.2 if floor else 1.2,
                linestyle=DASHES[at % len(DASHES)],
                label=label_of(row["id"], 34),
            )
        axes.set_xscale("log")
        log_axis(axes.xaxis)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("microseconds")
        axes.set_ylabel("share of samples at most")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)

    return Picture(
        title=TITLE,
        finding=finding,
        svg=draw(name, f"{TITLE}. {finding}", (WIDTH, 3.2), plot),
        head=("timing", "samples", "least, us", *(f"{share:.0%}" for share in QUANTILES), "most", "median between"),
        rows=[_row(row) for row in [*floors, *others]],
        note=_note(rows, curves, drawn),
    )


def _pooled(others: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Timings of one step of all targets together: an id begins with its target."""
    steps: dict[str, list[int]] = {}
    for row in others:
        steps.setdefault(row["id"].partition("/")[2] or row["id"], []).extend(row["samples"])
    return [{"id": id, "samples": samples} for id, samples in steps.items()]


def _note(rows: Sequence[dict[str, Any]], curves: Sequence[dict[str, Any]], drawn: Sequence[dict[str, Any]]) -> str:
    said = []
    if len(curves) < len(rows):
        said.append("A curve has the samples of all targets; the table has each.")
    if len(drawn) < len(curves):
        said.append(f"Drawn: the first {len(drawn)} of {len(curves)} curves, the fastest first.")
    return " ".join(said)


def _finding(floors: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> str:
    if not others:
        return "The launch floor alone was timed."
    fastest, slowest = others[0], others[-1]
    said = f"Medians from {_median(fastest):.3g} us ({fastest['id']}) to {_median(slowest):.3g} us ({slowest['id']})"
    if not floors:
        return f"{said}; no launch floor was measured."
    floor = max(map(_median, floors))
    return (
        f"{said}; the launch floor is {floor:.3g} us, so the fastest takes {_median(fastest) / floor:.1f} times that."
    )


def _median(row: dict[str, Any]) -> float:
    return float(np.median(row["samples"])) / 1000


def _row(row: dict[str, Any]) -> tuple[str | int, ...]:
    samples = np.asarray(row["samples"], np.float64) / 1000
    ends = interval(row["samples"])
    between = f"{ends[0] / 1000:.4g} to {ends[1] / 1000:.4g} us" if ends else "too few samples"
    middle = (f"{value:.4g}" for value in np.quantile(samples, QUANTILES))
    return (row["id"], len(samples), f"{samples.min():.4g}", *middle, f"{samples.max():.4g}", between)
