"""What the page of a calibration shows beside its receipt: rates and bands, p-values by kind, and far tails."""

from typing import Any

from pp3.harness.report.pictures.calibration import family_picture, kinds_picture, tails_picture

LIMITS = (
    "Power is no subject here: docs/faults.md shows what each check catches.",
    "Levels are those of the default campaign's checks, and of a smaller campaign's; another campaign has other laws.",
    "The sums of far tails bound the family's level; a weighted or tilted tail has the standard error stated.",
)
FAMILIES = ("null campaigns of", "alpha", "run", "rejected", "rate", "may be", "from a rate of", "to a rate of", "held")
FAR = ("checks of", "alpha", "checks", "sum of their tails", "standard error", "exact", "above their level", "largest")
UNIFORM = ("null campaigns of", "kind", "values", "G", "p", "level", "held")
RATES = ("null campaigns of", "kind", "at most", "p-values", "of", "rate / level", "99.9 % from", "to")
TAILS = ("checks of", "check", "level", "tail / level", "standard error", "exact / level", "how")
NOTHING = "-"


def context(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template."""
    figures, levels = predicate["figures"], [one for one in predicate["levels"] if one["campaigns"]]
    return {
        "families": [
            (
                one["level"],
                one["alpha"],
                f"{one['campaigns']:,}",
                f"{one['rejected']:,}",
                f"{one['rejected'] / one['campaigns']:.4f}",
                f"{one['low']:,} to {one['high']:,}",
                one["least"],
                one["most"],
                said(one["held"]),
            )
            for one in figures["families"]
        ],
        "families_head": FAMILIES,
        "far": [
            (
                one["level"],
                one["alpha"],
                one["checks"],
                one["chance"],
                one["error"],
                one["exact"],
                one["over"],
                f"{one['largest']} of its level: {one['largestOf']}",
            )
            for one in figures["far"]
        ],
        "far_head": FAR,
        "figures": _tiles(figures),
        "limits": LIMITS,
        "pictures": [
            *(family_picture(f"family-{one['level']}", one, figures["families"]) for one in levels),
            tails_picture("tails", predicate["tails"]),
            *(kinds_picture(f"kinds-{one['level']}", one) for one in levels),
        ],
        "rates": [
            (
                one["level"],
                one["kind"],
                one["rate"],
                f"{one['below']:,}",
                f"{one['tried']:,}",
                *(one[key] for key in ("ratio", "low", "high")),
            )
            for one in figures["rates"]
        ],
        "rates_head": RATES,
        "tails": [_tail(one) for one in predicate["tails"]],
        "tails_head": TAILS,
        "uniform": [
            (
                one["level"],
                one["kind"],
                f"{one['values']:,}",
                *(one[key] for key in ("g", "p", "alpha")),
                said(one["held"]),
            )
            for one in figures["uniform"]
        ],
        "uniform_head": UNIFORM,
    }


def said(held: bool) -> str:
    """Whether something was held."""
    return "yes" if held else "no"


def _tiles(figures: dict[str, Any]) -> list[tuple[str, str]]:
    found = [
        (f"{one['rejected'] / one['campaigns']:.2%}", f"of null campaigns of {one['level']} rejected at {one['alpha']}")
        for one in figures["families"]
        if one["alpha"] == "0.05"
    ]
    first = figures["far"][0]
    return [*found, (f"{float(first['chance']):.3g}", f"at most, at alpha {first['alpha']}")]


def _tail(one: dict[str, str]) -> tuple[str, ...]:
    level = float(one["alpha"])
    return (
        one["level"],
        one["id"],
        one["alpha"],
        f"{float(one['chance']) / level:.4f}",
        f"{float(one['error']) / level:.4f}",
        f"{float(one['exact']) / level:.4f}" if one["exact"] else NOTHING,
        one["how"],
    )
