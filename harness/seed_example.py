"""The customer's five published p-values, read again: the section of docs/battery.md, every number computed here."""

from scipy import stats

from pp3.harness.battery import SEED_FAMILY_ALPHA
from pp3.harness.bounds import upper
from pp3.harness.power import detectable_tv, noncentrality

P_VALUES = (0.972743, 0.923190, 0.537776, 0.045524, 0.600565)
REQUESTS = 20_000
OUTCOMES = (8, 32)  # assumed: the number of outcomes of each test was not published
SIZES = (REQUESTS, 10**6, 10**8)
POWER = CONFIDENCE = 0.999
SMALL_TV = 0.01


def bonferroni(p_values: tuple[float, ...]) -> list[float]:
    """Each p-value times their number, at most 1."""
    return [min(1.0, p * len(p_values)) for p in p_values]


def holm(p_values: tuple[float, ...]) -> list[float]:
    """Holm's adjusted p-values (1979): each times the number not smaller than it, never below a smaller one's."""
    adjusted, reached = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        reached = min(1.0, max(reached, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = reached
    return adjusted


def chance_of_minimum(p_values: tuple[float, ...]) -> float:
    """Chance that independent true nulls give a smallest p-value as small as this one."""
    return 1 - (1 - min(p_values)) ** len(p_values)


def chance_of_maximum(p_values: tuple[float, ...]) -> float:
    """Chance that independent true nulls give a largest p-value as large as this one."""
    return float(1 - max(p_values) ** len(p_values))


def not_excluded(p: float, outcomes: int, requests: int) -> float:
    """Total variation that a test of this p-value does not exclude."""
    return upper(float(stats.chi2.isf(p, outcomes - 1)), outcomes - 1, requests, CONFIDENCE)


def seen(outcomes: int, requests: int) -> float:
    """Total variation that one test of the family sees whatever its direction."""
    return detectable_tv(SEED_FAMILY_ALPHA, outcomes - 1, requests, POWER)


def chance_of_finding(tv: float, outcomes: int, requests: int) -> float:
    """Chance that one test of the family fails a sampler off by tv in the direction that shows least."""
    critical = stats.chi2.isf(SEED_FAMILY_ALPHA, outcomes - 1)
    return float(stats.ncx2.sf(critical, outcomes - 1, 4 * requests * tv**2))


def percent(share: float) -> str:
    """Three significant digits."""
    return f"{100 * share:#.3g} %"


def section() -> str:
    """The section, as Markdown."""
    few, many = OUTCOMES
    p_rows = [
        f"| {p:.6f} | {one:.4f} | {other:.4f} | {percent(not_excluded(p, few, REQUESTS))} "
        f"| {percent(not_excluded(p, many, REQUESTS))} |"
        for p, one, other in zip(P_VALUES, bonferroni(P_VALUES), holm(P_VALUES), strict=True)
    ]
    size_rows = [
        f"| {size:,} | {percent(seen(few, size))} | {percent(seen(many, size))} "
        f"| {percent(not_excluded(0.5, few, size))} | {percent(not_excluded(0.5, many, size))} |"
        for size in SIZES
    ]
    ncs = [noncentrality(SEED_FAMILY_ALPHA, outcomes - 1, POWER) for outcomes in OUTCOMES]
    level = f"{SEED_FAMILY_ALPHA * 1e6:g}e-6"
    low, high = percent(chance_of_minimum(P_VALUES)), percent(chance_of_maximum(P_VALUES))
    found = [percent(chance_of_finding(SMALL_TV, outcomes, REQUESTS)) for outcomes in OUTCOMES]
    seen_columns = f"TV seen with power {POWER}, {few} outcomes | {many} outcomes"
    return f"""\
Five targets, {REQUESTS:,} requests each, one p-value each, against a level of {level} (1e-5 over five). How
many outcomes each test had was not published: {few} and {many} are our assumption. TV is total variation.

| p | Bonferroni | Holm | TV not excluded, {few} outcomes | TV not excluded, {many} outcomes |
|---|---|---|---|---|
{chr(10).join(p_rows)}

- The adjusted minimum is {min(bonferroni(P_VALUES)):.4f} by Bonferroni and {min(holm(P_VALUES)):.4f} by Holm: the same,
  as always. The smallest p-value is {min(P_VALUES) / SEED_FAMILY_ALPHA:,.0f} times its threshold.
- That says little. Of families of five correct samplers {low} give a minimum as small, and
  {high} a maximum as large as {max(P_VALUES)}: nothing is remarkable, neither bad nor too good.
- A sampler off by {percent(SMALL_TV)} of its mass, in the direction that shows least, would fail one such test with a
  chance of {found[0]} ({few} outcomes) or {found[1]} ({many}).
- What the five passes exclude, at a confidence of {percent(CONFIDENCE)} each, is only a TV above the last two columns.
  A p-value above one half counts as one half: a fit that is too good is no evidence of a smaller error.

More requests of one target, by the same threshold:

| requests | {seen_columns} | TV not excluded by a pass at p = 0.5, {few} outcomes | {many} outcomes |
|---|---|---|---|---|
{chr(10).join(size_rows)}

Both shrink with the square root of the requests: TV seen is sqrt({ncs[0]:.1f} / requests) / 2 with {few} outcomes and
sqrt({ncs[1]:.1f} / requests) / 2 with {many}.
"""


if __name__ == "__main__":
    print(section(), end="")
