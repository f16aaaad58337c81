"""What could be seen: the power of each kind of check by the size of an error, and the smallest error of every check.

Power of G is of a multinomial whose total variation from the law is TV, in the direction that shows least: noncentral
chi-square with noncentrality 4 N TV^2 (harness/power.py). Power of a coin is that of its exact two-sided test, in the
weaker direction.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from pp3.harness import tails
from pp3.harness.cells import Event
from pp3.harness.design import Check, Method
from pp3.harness.power import Unit
from pp3.harness.report.judged import Judged, Row
from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WIDTH, Picture, draw, log_axis
from pp3.harness.special import special

POINTS = 60
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (7, 3)))
MARKS = "osD^vP*"
SHARES = (Unit.TV, Unit.COPIED)  # units of effects that are drawn
Floats = npt.NDArray[np.float64]


def power_picture(name: str, judged: Judged) -> Picture | None:
    """Power curves of the weakest required check of each kind; None if none of them decides."""
    weakest: dict[Event, tuple[Check, Row]] = {}
    for check, test in judged.deciding:
        if check.required and check.method in (Method.G, Method.BINOMIAL):
            known = weakest.get(check.event)
            if known is None or float(test["detectable"]) > float(known[1]["detectable"]):
                weakest[check.event] = check, test
    if not weakest:
        return None
    found = sorted(weakest.values(), key=lambda pair: float(pair[1]["detectable"]))
    sizes = [float(test["detectable"]) for _, test in found]
    best, worst = found[0][0], found[-1][0]
    finding = (
        f"An error is seen with power {judged.power:g} from a total variation of {sizes[0]:.3g} ({best.event.value}) "
        f"to {sizes[-1]:.3g} ({worst.event.value}, {worst.id}) on, by the weakest required check of each kind, "
        "whatever its direction; a smaller one could hide."
    )
    title = "Power by the size of an error"
    x = np.geomspace(sizes[0] / 10, min(1.0, sizes[-1] * 1.5), POINTS)
    curves = [power_of(check, x) for check, _ in found]

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.12, "right": 0.98})
        for at, ((check, _), curve, size) in enumerate(zip(found, curves, sizes, strict=True)):
            dash, mark = DASHES[at % len(DASHES)], MARKS[at % len(MARKS)]
            axes.plot(x, curve, linestyle=dash, color=LAW, linewidth=1.2)
            axes.plot([size], [judged.power], mark, color=INK, markersize=4.5, label=f"{check.event.value} {size:.3g}")
        axes.axhline(judged.power, color=SOFT, linewidth=0.6)
        axes.set_xscale("log")
        log_axis(axes.xaxis)
        axes.set_ylim(0, 1.03)
        axes.set_xlabel("total variation from the law")
        axes.set_ylabel("power")
        axes.legend(loc="upper left", title=f"seen with power {judged.power:g}:", title_fontsize=8)

    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 3.2), plot),
        head=(
            "kind",
            "weakest required check",
            "events planned",
            "level",
            "seen at power 0.8",
            "0.95",
            f"{judged.power:g}",
        ),
        rows=[
            (
                check.event.value,
                check.id,
                f"{check.events:,.0f}",
                f"{check.alpha:.3g}",
                *(f"{_seen(x, curve, power):.3g}" for power in (0.8, 0.95)),
                f"{size:.3g}",
            )
            for (check, _), curve, size in zip(found, curves, sizes, strict=True)
        ],
    )


def power_of(check: Check, sizes: Floats) -> Floats:
    """Chance that a check rejects a law at these total variations from its null, in the direction that shows least."""
    if check.method is Method.G:
        critical = tails.chi2_isf(check.alpha, check.df)
        seen: Floats = 1 - special.chndtr(critical, check.df, 4 * check.events * sizes**2)
        return seen
    events, chance = int(check.events), check.chance
    above = int(tails.binom_isf(check.alpha / 2, events, chance)) + 1
    below = int(tails.binom_ppf(check.alpha / 2, events, chance)) - 1
    ways = []
    for moved in (chance + sizes, chance - sizes):
        inside = np.clip(moved, 0, 1)
        power = tails.binom_sf(above - 1, events, inside) + tails.binom_cdf(below, events, inside)
        ways.append(np.where((moved >= 0) & (moved <= 1), power, 1.0))
    least: Floats = np.minimum(*ways)
    return least


def resolution_picture(name: str, judged: Judged) -> Picture | None:
    """The smallest effect that each check sees, and the largest that its counts leave possible, by kind."""
    kinds: dict[str, list[Row]] = {}
    for check, test in judged.deciding:
        if test["unit"] in SHARES:
            kinds.setdefault(check.event.value, []).append(test)
    if not kinds:
        return None
    order = sorted(kinds, key=lambda kind: -max(float(test["detectable"]) for test in kinds[kind]))
    drawn = [test for kind in order for test in kinds[kind]]
    worst = max(drawn, key=lambda test: float(test["detectable"]))
    best = min(drawn, key=lambda test: float(test["detectable"]))
    title = "The smallest effect that each check sees"
    finding = (
        f"{len(drawn):,} checks see errors from {float(best['detectable']):.2g} ({best['id']}) to "
        f"{float(worst['detectable']):.2g} ({worst['id']}) with power {judged.power:g}; what their counts do not "
        "exclude is marked beside."
    )

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.27, "right": 0.98})
        for at, kind in enumerate(order):
            rows = kinds[kind]
            y = np.full(len(rows), float(at))
            axes.plot(_of(rows, "detectable"), y + 0.17, "|", color=INK, markersize=6, label="sees" if not at else None)
            label = "not excluded" if not at else None
            axes.plot(_of(rows, "excluded"), y - 0.17, "|", color=LAW, markersize=6, label=label)
        axes.set_xscale("log")
        log_axis(axes.xaxis)
        axes.set_yticks(range(len(order)), [f"{kind} ({len(kinds[kind])})" for kind in order])
        axes.set_xlabel("total variation (of matches: share copied)")
        axes.legend(loc="lower left")

    left = len(judged.deciding) - len(drawn)
    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, 1.2 + 0.24 * len(order)), plot),
        head=("kind", "checks", "sees: least", "middle", "most", "not excluded: least", "middle", "most"),
        rows=[
            (kind, len(kinds[kind]), *_spread(kinds[kind], "detectable"), *_spread(kinds[kind], "excluded"))
            for kind in order
        ],
        note=f"{left} checks with effects of other units (ratios, repeats) are in the table of all checks."
        if left
        else "",
    )


def _of(rows: Sequence[Row], key: str) -> Floats:
    return np.array([float(test[key]) for test in rows])


def _spread(rows: Sequence[Row], key: str) -> tuple[str, str, str]:
    values = _of(rows, key)
    return f"{values.min():.3g}", f"{np.median(values):.3g}", f"{values.max():.3g}"


def _seen(x: Floats, curve: Floats, power: float) -> float:
    """The size at which a rising curve reaches a power."""
    return float(np.exp(np.interp(power, np.maximum.accumulate(curve), np.log(x))))
