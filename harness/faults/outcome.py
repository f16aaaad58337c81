"""What became of a fault or a control: one row of the matrix."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What became of a fault or a control."""

    CAUGHT = "CAUGHT"
    ESCAPED = "ESCAPED"
    EXACT_ONLY = "EXACT-ONLY"
    CONTROL_PASS = "CONTROL-PASS"
    CONTROL_FAIL = "CONTROL-FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault or control, as it came out."""

    id: str
    cause: str
    about: str
    report: str
    witness: str  # the check that must catch it; of a control, none
    sole: bool
    verdict: Outcome
    caught_by: list[str]  # kinds of checks that rejected it, of the first seed
    marginal: bool | None  # whether a plain chi-square test of first tokens rejected it, at the family alpha
    ships: dict[str, bool] | None  # by rule of peers.py: whether it would have let it pass
    requests: int  # of all laws, for one seed; 0 where no requests were counted, and marginal and ships are None
    seeds: int
    caught: int  # seeds at which the named check rejected it; of a control, at which nothing did
    effect: str  # the strongest reason, in words
    seconds: float = field(compare=False)  # by the clock, of the first seed
    cpu_seconds: float = field(default=0.0, compare=False)  # of one processor, a seed
    fast: bool = field(default=False, compare=False)  # by the rule of seeds.py, so that all seeds were run

    @property
    def good(self) -> bool:
        """Whether it came out as it must."""
        return self.verdict not in (Outcome.ESCAPED, Outcome.CONTROL_FAIL)

    def plain(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "id": self.id,
            "verdict": self.verdict.value,
            "caught_by": self.caught_by,
            "witness": self.witness,
            "sole": self.sole,
            "marginal": self.marginal,
            "ships": self.ships,
            "requests": self.requests,
            "seeds": self.seeds,
            "caught": self.caught,
            "cause": self.cause,
            "about": self.about,
            "report": self.report,
            "effect": self.effect,
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "fast": self.fast,
        }
