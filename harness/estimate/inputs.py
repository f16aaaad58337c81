"""What an estimate is made of: values, each with where it is from; what was measured, from receipts that verify."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError, VerificationError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import read
from pp3.harness.evidence.verify import verify
from pp3.harness.probe.figures import Outcome, quantile
from pp3.harness.probe.plan import OURS, Case, Mode, Part, cases

KIND = "probe"


class Provenance(StrEnum):
    """Where a value is from."""

    MEASURED = "measured"  # by a receipt, named by its digest
    EXACT = "exact"  # computed from a definition
    ASSUMED = "assumed"  # the caller says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One value."""

    name: str
    value: Fraction
    unit: str
    provenance: Provenance
    source: str  # a digest, a definition, or the option that said it

    def plain(self) -> dict[str, str]:
        """For --json."""
        return {
            "name": self.name,
            "provenance": self.provenance.value,
            "source": self.source,
            "unit": self.unit,
            "value": str(self.value),
        }


OTHERS = ", measured with other sources than these"


def verified_probe(path: Path) -> dict[str, Any]:
    """The predicate of a probe's receipt. ReceiptError: missing 2, malformed 1; CampaignError 2: of another kind;
    VerificationError 1: it does not verify, or its bits differ.
    """
    content, statement = read(path)
    kind = statement["predicate"]["kind"]
    if kind != KIND:
        raise CampaignError(f"{path} is of kind {kind}; give the receipt of pp3 probe")
    found = verify(path, content)
    if not found.ok:
        raise VerificationError(f"{path}: {found.sentence}")
    if found.verdict != Outcome.PROBED:
        raise VerificationError(f"{path}: the verdict is {found.verdict}: it holds no times")
    predicate: dict[str, Any] = statement["predicate"]
    return predicate


def times(paths: Sequence[Path], wanted: Sequence[Case]) -> dict[Part, tuple[Input, Input]]:
    """Median and 95th percentile of a round of ours for each wanted case, in microseconds.

    CampaignError if a case is in none of the receipts, or in two.
    """
    opened = {path: verified_probe(path) for path in paths}
    others = {
        path: OTHERS if provenance.stale(KIND, read(path)[1]["subject"], provenance.TREE) else "" for path in paths
    }
    found = {}
    for case in wanted:
        holders = [path for path, predicate in opened.items() if case.id in {row["id"] for row in predicate["cases"]}]
        if not holders:
            timed = [one for predicate in opened.values() for one in _timed(predicate, case.part)]
            sizes = sorted({(one.vocab, one.depth, one.batch) for one in timed})
            there = "; ".join(f"{vocab}, {depth}, {batch}" for vocab, depth, batch in sizes)
            raise CampaignError(f"{case.id} was not measured; vocabulary, depth and batch may be {there or 'none'}")
        if len(holders) > 1:
            raise CampaignError(f"{case.id} is in {holders[0]} and in {holders[1]}; give the one that is meant")
        found[case.part] = _inputs(case, holders[0], opened[holders[0]], others[holders[0]])
    return found


def _timed(predicate: dict[str, Any], part: Part) -> list[Case]:
    ids = {row["id"] for row in predicate["cases"]}
    return [case for case in cases(Mode(predicate["plan"]["mode"])) if case.part is part and case.id in ids]


def _inputs(case: Case, path: Path, predicate: dict[str, Any], others: str) -> tuple[Input, Input]:
    [timings] = [row["timings"] for row in predicate["cases"] if row["id"] == case.id]
    [ours] = [timing for timing in timings if timing["id"] == OURS]
    gpu = predicate["kernels"]["identity"].get("gpu", "GPU")
    source = f"sha256 {path.stem.rpartition('-')[2]}, {case.id}, {gpu}{others}"
    said = {50: f"{case.part}, median", 95: f"{case.part}, 95th percentile"}
    one, other = (
        Input(
            name=name,
            value=Fraction(quantile(ours["samples"], hundredths), 1000 * ours["rounds"]),
            unit="us",
            provenance=Provenance.MEASURED,
            source=source,
        )
        for hundredths, name in said.items()
    )
    return one, other


def assumed(name: str, text: str, unit: str, option: str, most: Fraction | None = None) -> Input:
    """A number that the caller gives. CampaignError unless it is one above 0, and no more than `most`."""
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise CampaignError(f"{option} {text}: give a number") from None
    if value <= 0 or (most is not None and value > most):
        above = f" and no more than {most}" if most is not None else ""
        raise CampaignError(f"{option} {text}: it must be above 0{above}")
    return Input(name=name, value=value, unit=unit, provenance=Provenance.ASSUMED, source=option)
