"""Null campaigns: how often families reach each level, transforms of p-values by kind, and tails over their levels."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from pp3.harness.bounds import binomial_interval
from pp3.harness.calibrate.plan import BAND
from pp3.harness.report.pictures.svg import GOOD, INK, LAW, SOFT, WARN, WIDTH, Picture, draw, label_of, log_axis

COLUMNS = 4  # of panels
PANEL = 0.95  # inches, the height of one
MARKS = {"weighted": ("o", LAW), "tilted": ("D", WARN), "enumerated": ("s", GOOD), "bounded": ("^", INK)}
EVERY = 5  # of the bins of a family, one is in the table
Row = dict[str, Any]


def family_picture(name: str, level: Row, families: Sequence[Row]) -> Picture:
    """The share of families whose smallest p-value over its share is at most so large, with exact intervals."""
    counts, campaigns = np.cumsum(level["family"]), level["campaigns"]
    ends = (np.arange(len(counts)) + 1) / len(counts)
    bands = np.array([binomial_interval(int(hits), campaigns, BAND) for hits in counts])
    mine = [one for one in families if one["level"] == level["level"]]
    finding = "; ".join(
        f"{one['rejected'] / one['campaigns']:.2%} reach {one['alpha']}, {one['low'] / one['campaigns']:.2%} to "
        f"{one['high'] / one['campaigns']:.2%} may"
        for one in mine
    )
    title = f"Families of {campaigns:,} null campaigns of {level['level']}"

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.12, "right": 0.98})
        axes.plot([0, 1], [0, 1], color=SOFT, linewidth=0.8, linestyle="--", label="alpha")
        axes.fill_between(ends, bands[:, 0], bands[:, 1], step="mid", color=LAW, alpha=0.25, linewidth=0)
        axes.plot(ends, counts / campaigns, color=LAW, label="families at most there")
        for at, one in enumerate(mine):
            x, low, high = float(one["alpha"]), one["low"] / campaigns, one["high"] / campaigns
            label = "may be" if not at else None
            axes.plot([x, x], [low, high], color=INK if one["held"] else WARN, linewidth=2.4, label=label)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("smallest p-value over its share of alpha")
        axes.set_ylabel("share of campaigns")
        axes.legend(loc="upper left")

    return Picture(
        title=title,
        finding=f"{finding}.",
        svg=draw(name, f"{title}. {finding}", (WIDTH, 3.0), plot),
        head=("at most", "campaigns", "share", "99.9 % from", "to"),
        rows=[
            (f"{ends[k]:.2f}", int(counts[k]), f"{counts[k] / campaigns:.4f}", *(f"{end:.4f}" for end in bands[k]))
            for k in sorted({0, *range(EVERY - 1, len(ends), EVERY)})
        ],
        note="Shaded: exact 99.9 % intervals. Above the dashed line a battery would reject more often than it says.",
    )


def tails_picture(name: str, tails: Sequence[Row]) -> Picture:
    """The chance that each check rejects a null, over its level, by the level."""
    shown = [one | {"ratio": float(one["exact"] or one["chance"]) / float(one["alpha"])} for one in tails]
    over = [one for one in shown if one["ratio"] > 1]
    largest = max(shown, key=lambda one: float(one["ratio"]))
    finding = (
        f"{len(over)} of {len(shown)} checks reject a null more often than their level says, the most {largest['id']}, "
        f"{largest['ratio']:.3f} times; {len(shown) - len(over)} are conservative."
    )
    title = "Far tails: the chance of a false alarm over the level of each check"

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.12, "right": 0.98})
        axes.axhline(1, color=SOFT, linewidth=0.8)
        for how, (mark, colour) in MARKS.items():
            some = [one for one in shown if one["how"] == how]
            if some:
                x, y = [float(one["alpha"]) for one in some], [one["ratio"] for one in some]
                axes.plot(x, y, mark, color=colour, markersize=3.5, linestyle="", alpha=0.6, label=how)
        axes.set_xscale("log")
        log_axis(axes.xaxis)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("level of the check")
        axes.set_ylabel("tail / level")
        axes.legend(loc="lower right", ncols=2)

    rows = sorted(shown, key=lambda one: -float(one["ratio"]))[:20]
    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 3.0), plot),
        head=("check", "of", "level", "tail / level", "how"),
        rows=[(one["id"], one["level"], one["alpha"], f"{one['ratio']:.4f}", _how(one)) for one in rows],
        note="The table has the twenty largest.",
    )


def _how(one: Row) -> str:
    return "exact" if one["exact"] else str(one["how"])


def kinds_picture(name: str, level: Row) -> Picture:
    """Bins of the transforms of p-values, a panel a kind."""
    kinds = [kind for kind in level["kinds"] if any(kind["pit"])]
    lines = -(-len(kinds) // COLUMNS)
    each = sum(kinds[0]["pit"]) / len(kinds[0]["pit"]) if kinds else 1.0
    wide = 3.29 * math.sqrt(each)
    most = max((max(kind["pit"]) for kind in kinds), default=1)
    outside = sum(abs(count - each) > wide for kind in kinds for count in kind["pit"])
    bins = sum(len(kind["pit"]) for kind in kinds)
    title = f"P-values of null campaigns of {level['level']}, spread over their steps, by kind of check"
    finding = f"{outside} of {bins} bins lie more than 3.29 standard deviations from the {each:,.0f} expected."

    def plot(figure: Figure) -> None:
        spaces = {"wspace": 0.12, "hspace": 0.35}
        panels = figure.subplots(lines, COLUMNS, squeeze=False, sharex=True, sharey=True, gridspec_kw=spaces)
        for axes in panels.ravel()[len(kinds) :]:
            axes.set_visible(False)
        for axes, kind in zip(panels.ravel(), kinds, strict=False):
            x = (np.arange(len(kind["pit"])) + 0.5) / len(kind["pit"])
            axes.bar(x, kind["pit"], width=1 / len(x), color=LAW, alpha=0.6, linewidth=0)
            axes.axhline(each, color=INK, linewidth=0.6)
            axes.axhspan(each - wide, each + wide, color=SOFT, alpha=0.2, linewidth=0)
            axes.set_title(label_of(kind["id"], 18), fontsize=7)
            axes.set_ylim(0, most * 1.1)
            axes.tick_params(labelsize=6)

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 0.6 + PANEL * max(lines, 1)), plot, top=0.25, bottom=0.3),
        head=("kind", *(f"bin {k + 1}" for k in range(len(kinds[0]["pit"]) if kinds else 0))),
        rows=[(kind["id"], *kind["pit"]) for kind in kinds],
        note="Of one check of a kind a campaign, in turn.",
    )
