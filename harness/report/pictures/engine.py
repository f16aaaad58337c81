"""Pictures of an engine's page: every check beside its level, what each kind sees, and the ranks of tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from pp3.harness.engine.cells import Look
from pp3.harness.engine.plan import Plan
from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WARN, WIDTH, Picture, draw, label_of, log_axis
from pp3.harness.special import special

Row = dict[str, Any]
LEAST = 1e-12  # what a smaller p over its level is drawn as
BAND = 3.0  # standard deviations
MOST_LANES = 14


def levels_picture(name: str, plan: Plan, tests: Sequence[Row]) -> Picture | None:
    """p over its level of every check, condition by condition: what lies left of 1 fails."""
    of = {check.id: check.cell.condition for check in plan.checks}
    lanes: dict[str, list[Row]] = {}
    for test in tests:
        if float(test["alpha"]):
            lanes.setdefault(of[test["id"]], []).append(test)
    if not lanes:
        return None
    ratios = {test["id"]: float(test["p"]) / float(test["alpha"]) for rows in lanes.values() for test in rows}
    nearest = min(ratios, key=lambda one: ratios[one])
    failed = sum(ratio <= 1 for ratio in ratios.values())
    title = "Every check beside its level"
    finding = (
        f"{failed:,} of {len(ratios):,} checks lie at or below their level; the nearest, {nearest}, has a p of "
        f"{ratios[nearest]:.2g} times its level."
    )
    order = list(lanes)

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.27, "right": 0.98})
        for at, lane in enumerate(order):
            drawn = np.array([max(ratios[test["id"]], LEAST) for test in lanes[lane]])
            for which, mark, colour in ((drawn > 1, "o", INK), (drawn <= 1, "X", WARN)):
                axes.plot(
                    drawn[which], np.full(int(which.sum()), at), mark, color=colour, markersize=3.6, markeredgewidth=0
                )
        axes.axvline(1, color=LAW, linestyle="--", linewidth=0.9)
        axes.set_xscale("log")
        axes.set_xlim(min(0.1, *(max(ratio, LEAST) for ratio in ratios.values())) / 3, 3 * max(ratios.values()))
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0e}" if value != 1 else "1")
        axes.set_yticks(range(len(order)), [label_of(lane, 20) for lane in order])
        axes.invert_yaxis()
        axes.set_xlabel("p over its level (dashed: the level)")

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 0.9 + 0.2 * len(order)), plot),
        head=("check", "p", "level", "p over level"),
        rows=[
            (test["id"], test["p"], test["alpha"], f"{ratios[test['id']]:.3g}")
            for rows in lanes.values()
            for test in rows
        ],
    )


def sees_picture(name: str, tests: Sequence[Row]) -> Picture | None:
    """The smallest total variation that each check sees, by kind, and what its counts do not exclude."""
    kinds: dict[str, list[Row]] = {}
    for test in tests:
        if float(test["alpha"]) and float(test["detectable"]) < 1:
            kinds.setdefault(test["event"], []).append(test)
    if not kinds:
        return None
    drawn = [test for rows in kinds.values() for test in rows]
    best = min(drawn, key=lambda test: float(test["detectable"]))
    title = "The smallest error that each check sees"
    finding = (
        f"The finest, {best['id']}, sees {float(best['detectable']):.2g} in total variation, whatever its direction."
    )
    order = list(kinds)

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.27, "right": 0.98})
        for at, kind in enumerate(order):
            for key, shift, colour, label in (
                ("detectable", 0.17, INK, "sees"),
                ("excluded", -0.17, LAW, "not excluded"),
            ):
                values = [float(test[key]) for test in kinds[kind]]
                y = np.full(len(values), at + shift)
                axes.plot(values, y, "|", color=colour, markersize=6, label=label if not at else None)
        axes.set_xscale("log")
        log_axis(axes.xaxis)
        axes.set_yticks(range(len(order)), [f"{kind} ({len(kinds[kind])})" for kind in order])
        axes.set_xlabel("total variation")
        axes.legend(loc="upper left")

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 1.3 + 0.26 * len(order)), plot),
        head=("check", "sees", "not excluded"),
        rows=[(test["id"], test["detectable"], test["excluded"]) for test in drawn],
    )


def ranks_picture(name: str, plan: Plan, counts: Mapping[str, Sequence[int]]) -> Picture | None:
    """Residuals of the buckets of ranks, a lane each condition, the furthest first."""
    lanes = []
    for check in plan.checks:
        found = np.array(counts[check.id][:-2], np.float64)
        if check.cell.look is Look.RANK and check.alpha and found.sum():
            expected = found.sum() * check.cell.probabilities
            lanes.append((check.id, (found - expected) / np.sqrt(expected * (1 - check.cell.probabilities)), found))
    if not lanes:
        return None
    total = sum(len(one[1]) for one in lanes)
    shown = sorted(lanes, key=lambda one: -float(np.abs(one[1]).max()))[:MOST_LANES]
    limit = float(-special.ndtri(plan.spec.alpha / 2 / total))
    worst = shown[0]
    title = "Where tokens lie in their laws"
    beyond = sum(int((np.abs(one[1]) > limit).sum()) for one in lanes)
    finding = (
        f"Of {total:,} buckets of ranks the furthest, of {worst[0]}, is {float(np.abs(worst[1]).max()):.1f} sd from an "
        f"equal share; {beyond:,} lie beyond the dashed {limit:.1f} sd, where chance puts none."
    )

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.27, "right": 0.98})
        reach = 2.1 * max(limit, *(float(np.abs(one[1]).max()) for one in shown))
        for at, (_, residual, _) in enumerate(shown):
            x = (np.arange(len(residual)) + 0.5) / len(residual)
            axes.fill_between([0, 1], -at - BAND / reach, -at + BAND / reach, color=LAW, alpha=0.14, linewidth=0)
            for level in (limit, -limit):
                axes.plot([0, 1], [-at + level / reach] * 2, color=SOFT, linewidth=0.5, linestyle="--")
            axes.vlines(x, -at, -at + residual / reach, color=INK, linewidth=0.8)
            far = np.abs(residual) > limit
            axes.plot(x[far], -at + residual[far] / reach, "X", color=WARN, markersize=5, markeredgewidth=0)
        axes.set_yticks([-at for at in range(len(shown))], [label_of(one[0].rpartition("/")[0], 20) for one in shown])
        axes.set_ylim(0.6 - len(shown), 0.6)
        axes.set_xlabel("rank in the law, the likeliest tokens first")

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 0.9 + 0.34 * len(shown)), plot),
        head=("condition", "bucket", "observed", "residual / sd"),
        rows=[
            (one[0].rpartition("/")[0], at, int(one[2][at]), f"{one[1][at]:+.2f}")
            for one in shown
            for at in np.argsort(-np.abs(one[1]), kind="stable")[:4].tolist()
        ],
        note=f"Drawn: the {len(shown)} of {len(lanes)} conditions with the furthest buckets."
        if len(shown) < len(lanes)
        else "",
    )
