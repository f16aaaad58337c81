"""docs/reference/checks.md: what each kind of check is for, from the table that `pp3 explain` reads."""

from collections.abc import Iterator

from pp3.harness.explain import table as explained
from pp3.harness.explain.entry import CAUSES, STATISTICS, Entry, Part
from pp3.harness.explain.table import CAMPAIGN_REQUESTS
from pp3.harness.reference.tables import code, table
from pp3.harness.weights import ALPHA, DEFAULT, POWER, Family

HEAD = f"""\
# Checks

Every kind of check that a verdict or a receipt can name: what it tests, what that is held to, the fault it is for, and
its share of alpha. `pp3 explain NAME` says the same of one, by the name of a kind or of a check as a receipt prints it
(`whole/depth-2/residual/position-1`). How the statistics work is in [the battery](../battery.md); *required* checks are
those that a PASS needs. *Level of one* and the size that a check *sees* are those of the default campaign at
{CAMPAIGN_REQUESTS:,} requests of each target, with power {POWER:g}; TV is total variation.

## The error budget

A right sampler fails a campaign with a probability of at most {ALPHA:g}. Each check has a fixed part of it: its
family's share, in equal parts over the checks of the family that can decide. Checks that compare exactly have no error
rate and no share.

"""
BETWEEN = """
How a check is decided (`method` of a test in a receipt):

"""
CLASSES = """
## Classes of bugs

The public classes of bugs that planted faults are of ([faults.md](../faults.md)).

"""


def page() -> str:
    """The page."""
    said = HEAD + table(("family", "share", "checks of"), _families())
    said += BETWEEN + table(("method", "statistic"), [(code(name), how) for name, how in STATISTICS.items()])
    for part in Part:
        entries = [entry for entry in explained.ENTRIES if entry.part is part]
        if entries:
            said += f"\n## {part.value[0].upper()}{part.value[1:]}\n\n" + _table(entries)
    return said + CLASSES + table(("class", "what goes wrong"), [(f"K{key}", text) for key, text in CAUSES.items()])


def _families() -> Iterator[tuple[str, str, str]]:
    for family in Family:
        names = [code(entry.name) for entry in explained.ENTRIES if entry.family is family]
        yield code(family.value), f"{DEFAULT[family.value]:.0%}", ", ".join(names)


def _table(entries: list[Entry]) -> str:
    """Without the columns that are empty for all of a part."""
    columns = {
        "check": [code(entry.name) for entry in entries],
        "tests": [entry.tests for entry in entries],
        "held to": [entry.law for entry in entries],
        "finds": [entry.finds for entry in entries],
        "classes": [", ".join(f"K{key}" for key in entry.causes) for entry in entries],
        "method": [", ".join(map(code, entry.methods)) for entry in entries],
        "level of one": [f"{explained.level(entry):.2g}" if entry.default else "" for entry in entries],
        "sees": [entry.default.sees if entry.default else entry.sees for entry in entries],
        "required": ["yes" if entry.required else "" for entry in entries],
        "if it fails": [entry.fails for entry in entries],
    }
    kept = {name: cells for name, cells in columns.items() if any(cells)}
    return table(kept, zip(*kept.values(), strict=True))
