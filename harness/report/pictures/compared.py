"""How many values each enumeration compared, on a logarithmic scale, and how many of them it names as wrong."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pp3.harness.report.pictures.svg import INK, LAW, WIDTH, Picture, draw, label_of

TITLE = "How much each enumeration compared"


def compared_picture(name: str, rows: Sequence[tuple[str, int, str]]) -> Picture:
    """Rows of id, comparisons and claim."""
    total = sum(count for _, count, _ in rows)
    most = max(rows, key=lambda row: row[1])
    finding = f"{total:,} comparisons in all; the most, {most[1]:,}, in {most[0]}."

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.2, "right": 0.98})
        counts = np.array([count for _, count, _ in rows], np.float64)
        y = np.arange(len(rows))
        axes.barh(y, np.maximum(counts, 1), height=0.6, color=LAW, alpha=0.4, left=0.5)
        for at, count in enumerate(counts):
            axes.text(max(count, 1) * 1.3, at, f"{int(count):,}", va="center", color=INK, fontsize=8)
        axes.set_xscale("log")
        axes.set_xlim(0.5, max(float(counts.max()), 1) * 300)
        axes.set_xticks(10.0 ** np.arange(0, np.log10(max(float(counts.max()), 10.0)) + 1, 2))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
        axes.set_yticks(y, [label_of(id) for id, _, _ in rows])
        axes.invert_yaxis()
        axes.set_xlabel("compared")

    return Picture(
        title=TITLE,
        finding=finding,
        svg=draw(name, f"{TITLE}. {finding}", (WIDTH, 1.0 + 0.28 * len(rows)), plot),
        head=("enumeration", "compared", "claim"),
        rows=[(id, f"{count:,}", claim) for id, count, claim in rows],
    )
