"""Every kind of check that a receipt or a verdict can name, and the one that a printed name is of.

Loads neither numpy nor torch: `pp3 explain` answers at once, on any machine.
"""

import difflib
import re

from pp3.harness.explain import battery, engine, exact, others
from pp3.harness.explain.entry import CAUSES, STATISTICS, Entry, Part
from pp3.harness.weights import ALPHA, DEFAULT, POWER

ENTRIES: tuple[Entry, ...] = (*battery.ENTRIES, *exact.ENTRIES, *engine.ENTRIES, *others.ENTRIES)
NAMES = {entry.name: entry for entry in ENTRIES}
CAMPAIGN_REQUESTS = 20_000  # of each target of the default campaign, at which `default.sees` holds
NAMED = 3  # bug classes that are spelled out
ROWS = ("propose", "verify", "requests", "selector", "verifier")  # begin the name of a group of bits
CASES = ("selector", "verifier")
DEPTH = re.compile(r"depth-\d+")
NUMBER = re.compile(r"-\d+$")


def find(name: str, engine: bool = False) -> Entry | None:
    """The entry of a kind, of one of its other names, or of a check as a receipt or a verdict prints it.

    A word of two parts is the sampler's, unless an engine's receipt is spoken of.
    """
    name = name.strip().rstrip(":").removesuffix(")").removeprefix("(")
    known = (NAMES.get(f"engine:{name}") if engine else None) or _word(name)
    if known or "/" not in name:
        return known
    first, *_, last = parts = name.split("/")
    if first in CASES and last not in ("before", "after"):
        return NAMES.get(f"probe:{first}")
    if first in ROWS and any(part.startswith(("vocab-", "depth-")) for part in parts):
        return NAMES["bits"]
    at = next((place for place, part in enumerate(parts) if DEPTH.fullmatch(part)), None)
    if at is not None:  # target/depth-4/kind/where
        return NAMES.get(parts[at + 1]) if at + 1 < len(parts) else None
    if first == "replay":
        return NAMES["engine:replay"]
    return NAMES.get(f"engine:{NUMBER.sub('', last)}") or _word(last)


def also(entry: Entry) -> list[str]:
    """Full names of other parts whose entry has the same word."""
    return [other.name for other in ENTRIES if other is not entry and other.word == entry.word]


def near(name: str) -> list[str]:
    """Known names that a name may be meant for."""
    words: dict[str, str] = {}
    for entry in ENTRIES:
        for word in (entry.name, entry.word, *entry.aliases):
            words.setdefault(word, entry.name)
    close = difflib.get_close_matches(name.rpartition("/")[2].lower(), words, 4, 0.55)
    close += [word for word in words if len(name) > 2 and name.lower() in word]
    return list(dict.fromkeys(words[word] for word in close))[:4]


def _word(name: str) -> Entry | None:
    """The entry of a kind by its full name, its word, or another name; the battery's first."""
    return NAMES.get(name) or next(
        (entry for entry in ENTRIES if name == entry.word),
        next((entry for entry in ENTRIES if name in entry.aliases), None),
    )


def level(entry: Entry) -> float:
    """Level of one check of a kind in the default campaign; 0 if that has none. Its family's checks share equally."""
    if entry.family is None or entry.default is None:
        return 0.0
    many = sum(one.default.checks for one in ENTRIES if one.family is entry.family and one.default)
    return ALPHA * DEFAULT[entry.family.value] / many


def said(entry: Entry) -> list[tuple[str, str]]:
    """An entry as labels and texts: ten lines with its name."""
    named = [f"K{number} {CAUSES[number]}" for number in entry.causes[:NAMED]]
    causes = "; ".join(named + [f"K{number}" for number in entry.causes[NAMED:]])
    return [
        ("tests", entry.tests),
        ("held to", entry.law),
        ("finds", entry.finds),
        ("bug classes", causes or "none of the public catalogue by itself"),
        ("planted", _planted(entry)),
        (
            "statistic",
            "; or ".join(STATISTICS[one] for one in entry.methods) or entry.statistic or "none: compared exactly",
        ),
        ("share of alpha", share(entry)),
        ("power", power(entry)),
        ("if it fails", f"{entry.fails}; {'a PASS needs it' if entry.required else 'a PASS does not wait for it'}"),
    ]


def share(entry: Entry) -> str:
    """Which part of the family's alpha it has."""
    if entry.part is Part.ENGINE:
        return f"an equal part of {ALPHA:g} with every other check of the engine that can decide"
    if entry.part is Part.CALIBRATION:
        return "none: it judges the battery, no sampler"
    if entry.family is None:
        return "none" if entry.part is not Part.PROBE else "none: no level, no verdict"
    whole = f"{DEFAULT[entry.family.value]:.0%} of {ALPHA:g} is of the family `{entry.family.value}`, in equal parts"
    return f"{whole}: {level(entry):.2g} each in the default campaign" if entry.default else whole


def power(entry: Entry) -> str:
    """What it sees."""
    if entry.default:
        return (
            f"{entry.default.sees} by the weakest of {entry.default.checks} at {CAMPAIGN_REQUESTS:,} requests a "
            f"target, with power {POWER:g}"
        )
    if entry.sees:
        return entry.sees
    return f"each check of a receipt states the smallest effect that it sees with power {POWER:g}"


def _planted(entry: Entry) -> str:
    """Planted faults that it is the named check of."""
    if not entry.planted:
        return "none with this as its named check"
    how = "tests/test_engine_battery.py" if entry.part in (Part.ENGINE, Part.ANSWERS) else "docs/faults.md"
    return f"{', '.join(entry.planted)} ({how})"
