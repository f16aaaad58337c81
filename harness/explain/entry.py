"""One check, explained: the fields of the table, and the words that its entries share."""

from dataclasses import dataclass
from enum import StrEnum

from pp3.harness.weights import Family


class Part(StrEnum):
    """Where a check belongs."""

    BATTERY = "statistics of a sampler"
    ALWAYS = "of every request"
    EXACT = "enumerations"
    BITS = "bits of the kernels"
    ENGINE = "statistics of a whole engine"
    ANSWERS = "answers of a whole engine"
    WIRE = "the wire"
    PROBE = "words of a probe"
    CALIBRATION = "the battery itself"


# The public bug classes that planted faults are of, by the K of their names.
CAUSES = {
    1: "acceptance rule and proposal law disagree",
    2: "the replacement of a rejected draft is drawn wrongly",
    3: "first or bonus position, number of tokens, stops",
    4: "rows or slots exchanged, stale buffers",
    5: "a parameter applied on one path only",
    6: "masks and grammars beside drafts",
    7: "borders and ties of filters",
    8: "greedy rows and temperature 0",
    9: "tokens without probability, draws at the ends of their range",
    10: "resolution, precision, normalisation, bounded integers",
    11: "random streams reused or correlated",
    12: "an equal seed gives other tokens",
    13: "non-finite rows, bad ids, padding, overflow",
    14: "races and asynchronous hand-off",
    15: "reported log-probabilities, modes, counts",
}

# How a check is decided, by the `method` of a receipt's test; a check that is compared exactly has none of these.
STATISTICS = {
    "g": "G = 2 sum n ln(n / (N p)) over groups pooled by the law alone, chi-square",
    "binomial": "exact two-sided binomial tails of one coin",
    "repeat": "a Poisson tail of events that chance lets hardly one of occur",
    "rare": "the smallest exact binomial tail of single outcomes, divided by their number",
    "fit": "the sum of G of independent cells, chi-square, both sides",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """What the checks of one kind come to in the default campaign."""

    checks: int  # that can decide
    sees: str  # smallest effect that the weakest of them sees; of those that a PASS needs, if any


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One kind of check."""

    name: str  # as a receipt and a verdict print it; after a colon where another part has the same word
    part: Part
    tests: str  # what is counted or compared
    law: str  # what that is held to
    finds: str  # the fault it is for
    causes: tuple[int, ...] = ()  # of CAUSES
    planted: tuple[str, ...] = ()  # some of the planted faults whose named check it is
    methods: tuple[str, ...] = ()  # of STATISTICS, the usual one first
    statistic: str = ""  # where it is none of these
    family: Family | None = None  # whose share of alpha it has a part of
    default: Default | None = None  # of the battery, if the default campaign has it
    sees: str = ""  # what it sees, where no default says so
    required: bool = False  # whether a PASS needs it
    fails: str = "FAIL"  # what follows
    aliases: tuple[str, ...] = ()  # other words that are printed for it
    page: str  # that says more

    @property
    def word(self) -> str:
        """The name without its part."""
        return self.name.rpartition(":")[2]
