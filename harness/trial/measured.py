"""Everything a trial found, in integers and plain strings; nothing judged."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class Measured:
    """Of one problem or of several: each key names its problem."""

    counts: dict[str, list[int]] = field(default_factory=dict)  # by cell
    first: dict[str, list[int]] = field(default_factory=dict)  # the same of the first half of the requests
    strays: list[dict[str, Any]] = field(default_factory=list)  # forbidden outcomes: cell, outcome, count
    breaches: dict[str, int] = field(default_factory=dict)  # by problem/breach, those that occurred
    broken: dict[str, str] = field(default_factory=dict)  # by problem: how the sampler broke the contract
    seconds: dict[str, float] = field(default_factory=dict)  # by problem
    requests: int = 0

    def add(self, other: "Measured") -> None:
        """Take in what was found on other problems."""
        self.counts |= other.counts
        self.first |= other.first
        self.strays += other.strays
        self.breaches |= other.breaches
        self.broken |= other.broken
        self.seconds |= other.seconds
        self.requests += other.requests
