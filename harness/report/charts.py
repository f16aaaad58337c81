"""Pictures for a page: matplotlib SVG without scripts, the same bytes for the same numbers, ids unique on the page.

Ink is drawn in one sentinel colour that becomes the page's text colour, so that a chart follows light and dark.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pp3.harness.report.pictures.svg import INK, LAW, WARN
from pp3.harness.report.pictures.svg import draw as draw_svg

SEEN = INK
Floats = npt.NDArray[np.float64]


def spread_of(expected: Floats) -> Floats:
    """Standard deviation of each count of a multinomial with these expectations."""
    total = max(float(expected.sum()), 1.0)
    return np.sqrt(np.maximum(expected * (1 - expected / total), 1e-12))


def law_chart(name: str, label: str, observed: Floats, expected: Floats) -> str:
    """Observed against expected counts of pooled outcomes, most likely first, with standardised residuals below."""
    order = np.argsort(-expected, kind="stable")
    observed, expected = observed[order], expected[order]
    spread = spread_of(expected)
    residual = (observed - expected) / spread
    x = np.arange(len(expected))

    def draw(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        top.bar(x, expected, width=0.8, color=LAW, alpha=0.35, label="exact law")
        top.errorbar(
            x,
            observed,
            yerr=3 * spread,
            fmt="o",
            markersize=3,
            color=SEEN,
            ecolor=SEEN,
            linewidth=0.7,
            label="observed, ±3 sd",
        )
        top.set_ylabel("events")
        top.legend(loc="upper right")
        bottom.axhspan(-3, 3, color=LAW, alpha=0.12)
        bottom.axhline(0, color=INK, linewidth=0.6)
        bottom.vlines(x, 0, residual, color=np.where(np.abs(residual) > 3, WARN, SEEN), linewidth=1.4)
        limit = max(4.0, float(np.abs(residual).max()) * 1.1)
        bottom.set_ylim(-limit, limit)
        bottom.set_ylabel("residual / sd")
        bottom.set_xlabel("pooled outcomes, most likely first")

    return draw_svg(name, label, (7.2, 3.4), draw)


def length_chart(name: str, label: str, lengths: Sequence[int], observed: Floats, expected: Floats) -> str:
    """Number of accepted drafts, observed beside the exact law."""
    x = np.arange(len(lengths))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.bar(x - 0.2, expected, width=0.4, color=LAW, alpha=0.6, label="exact law")
        axes.bar(x + 0.2, observed, width=0.4, color=SEEN, label="observed")
        axes.set_xticks(x, [str(length) for length in lengths])
        axes.set_xlabel("drafts accepted")
        axes.set_ylabel("requests")
        axes.legend(loc="upper center")

    return draw_svg(name, label, (4.2, 2.6), draw)


def ladder_chart(name: str, label: str, values: Sequence[float], levels: Sequence[float]) -> str:
    """Sorted p-values against the uniform line, with the level each is held to."""
    order = np.argsort(values)
    p, level = np.maximum(np.array(values)[order], 1e-300), np.array(levels)[order]
    rank = np.arange(1, len(p) + 1)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(rank, rank / (len(p) + 1), color=LAW, linewidth=1, label="uniform (no fault)")
        axes.plot(rank, level, color=INK, linewidth=1, linestyle="--", label="level of each check")
        axes.scatter(rank, p, s=9, color=np.where(p <= level, WARN, SEEN), label="p-value", zorder=3)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("rank")
        axes.set_ylabel("p-value of G")
        axes.legend(loc="lower right")

    return draw_svg(name, label, (7.2, 3.0), draw)
