"""How far emitted tickets lie from the ideal softmax, enclosed, and how far the device's law from its target, exactly.

The first are enclosed between decimals less than 1e-20 apart, so that a mark is wider than its interval. One ticket
is a share of 2^-24. The second are rationals: the law of 32-bit acceptance and 64-bit draws against the target.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WARN, WIDTH, Picture, draw, label_of
from pp3.kernels.reference import ONE

LEGEND = 0.3  # inches above the axes


def tickets_picture(name: str, policies: Sequence[dict[str, Any]]) -> Picture:
    """Every row of every policy, the furthest first within each, as emitted and by largest remainders."""
    title = "Tickets against the ideal softmax"
    rows = [(policy["survey"]["target"], at, row) for policy in policies for at, row in enumerate(policy["distances"])]
    far = [float(row["emitted"][1]) for _, _, row in rows]
    best = [float(row["largestRemainder"][1]) for _, _, row in rows]
    worst = int(np.argmax(far))
    finding = (
        f"Of {len(rows)} rows the furthest lies within {far[worst]:.3g} in total variation of its ideal softmax "
        f"({rows[worst][0]}, row {rows[worst][1]}), which is {far[worst] * ONE:.1f} of {ONE:,} tickets; the best that "
        f"whole tickets allow is at most {max(best):.3g} in any row."
    )

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.2, "right": 0.98})
        names = list(dict.fromkeys(policy for policy, _, _ in rows))
        for at, policy in enumerate(names):
            mine = [number for number, row in enumerate(rows) if row[0] == policy]
            mine.sort(key=lambda number: far[number])
            y = at + np.linspace(-0.38, 0.38, len(mine)) if len(mine) > 1 else np.array([float(at)])
            label = (None, None) if at else ("as emitted", "largest remainders")
            axes.plot([far[number] * ONE for number in mine], y, "o", color=INK, markersize=3, label=label[0])
            left = [best[number] * ONE for number in mine]
            axes.plot(left, y, "D", color=LAW, markersize=3, markerfacecolor="none", label=label[1])
        axes.set_yticks(range(len(names)), [label_of(policy) for policy in names])
        axes.set_xlim(left=0)
        axes.set_xlabel("total variation, in tickets (shares of 2^-24)")
        axes.legend(loc="upper center", bbox_to_anchor=(0.45, 1.14), ncols=2)

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 1.3 + 0.55 * len(policies)), plot, LEGEND),
        head=("policy", "row", "as emitted: at least", "at most", "largest remainders: at least", "at most", "moved"),
        rows=[(policy, at, *row["emitted"], *row["largestRemainder"], int(row["moved"])) for policy, at, row in rows],
    )


def device_picture(name: str, policies: Sequence[dict[str, Any]]) -> Picture:
    """Every round of every policy: the largest distance of the device's law, and what bounds it."""
    title = "Exact distance of the device's law"
    rounds = [
        (policy["survey"]["target"], one, float(Fraction(one["largest"]["ratio"])), float(Fraction(one["bound"])))
        for policy in policies
        for one in policy["survey"]["bridges"]
    ]
    wrong = sum(bool(one["fault"]) or size > bound for _, one, size, bound in rounds)
    policy, one, size, bound = max(rounds, key=lambda each: each[2])
    equal = sum(each[2] == 0 for each in rounds)
    finding = (
        f"In {len(rounds)} rounds the design's law equals the target as a rational"
        + (f", but in {wrong}" if wrong else "")
        + f"; with its 32 and 64 bit words the device lies at most {size:.3g} away ({policy}, depth {one['depth']}), "
        f"within the bound of {bound:.3g}, and exactly on it in {equal}."
    )

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.2, "right": 0.98})
        names = list(dict.fromkeys(each[0] for each in rounds))
        for at, name_of in enumerate(names):
            mine = sorted(each[2] for each in rounds if each[0] == name_of)
            y = at + np.linspace(-0.32, 0.32, len(mine)) if len(mine) > 1 else np.array([float(at)])
            limit = max(each[3] for each in rounds if each[0] == name_of)
            beyond = np.array(mine) > limit
            values = np.array(mine) * 1e10
            axes.plot(values[~beyond], y[~beyond], "o", color=INK, markersize=3, label=None if at else "round")
            axes.plot(values[beyond], y[beyond], "X", color=WARN, markersize=6, markeredgewidth=0)
            axes.plot([limit * 1e10] * 2, [at - 0.4, at + 0.4], color=LAW, linewidth=2, label=None if at else "bound")
        axes.set_yticks(range(len(names)), [label_of(name_of) for name_of in names])
        _from_zero(axes)
        axes.set_xlabel("largest total variation, in 1e-10")
        axes.legend(loc="upper center", bbox_to_anchor=(0.45, 1.14), ncols=2)

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 1.3 + 0.55 * len(policies)), plot, LEGEND),
        head=("policy", "depth", "first void draft", "equals the target", "total variation", "as a rational", "bound"),
        rows=[
            (
                policy,
                one["depth"],
                one["void"].index(1) if 1 in one["void"] else "none",
                one["fault"] or "yes",
                f"{size:.6g}",
                one["largest"]["ratio"],
                f"{bound:.6g}",
            )
            for policy, one, size, bound in rounds
        ],
    )


def _from_zero(axes: Axes) -> None:
    axes.axvline(0, color=SOFT, linewidth=0.6)
    axes.set_xlim(left=-0.05 * axes.get_xlim()[1])
