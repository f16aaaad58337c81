"""What follows from a probe's raw samples: medians, percentiles, ratios and the verdict. In integers and rationals.

A quantile is a sample (nearest rank): the k-th smallest of n with k = ceil(share * n). Ratios are of medians a round.
The floor of a case is the smaller median of its empty launches. Memory time is bytes moved over the bandwidth of a copy
that was timed in the same run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from pp3.harness.probe.plan import FLOORS, OURS, Case, Job, Kind, Mode, Part, cases, contenders

HUNDREDTHS = {"p05": 5, "median": 50, "p95": 95}
EXCLUSIONS = (
    "No Markov head.",
    "No pair communication.",
    "No host transfer.",
    "No verification in the selector's cases, and no drafting in the verifier's.",
    "Argmax, top-k alone and draws from given probabilities or from the whole vocabulary are no fused selector.",
    "The bytes moved are the fewest; no hardware counter was read.",
)
Row = dict[str, Any]


class Outcome(StrEnum):
    """The verdict of a probe."""

    PROBED = "PROBED"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The verdict, and why."""

    verdict: Outcome
    reasons: list[str]
    sentence: str


def quantile(samples: Sequence[int], hundredths: int) -> int:
    """The nearest-rank quantile of at least one sample."""
    ordered = sorted(samples)
    return ordered[max(0, -(-hundredths * len(ordered) // 100) - 1)]


def a_round(timing: Row) -> Fraction:
    """Nanoseconds of the median round of one timing."""
    return Fraction(quantile(timing["samples"], 50), timing["rounds"])


def figures(mode: Mode, measured: Sequence[Row], bandwidth: Row) -> list[Row]:
    """One row a case of `measured` (id, timings): its memory time, and a line for each of its timings."""
    by_id = {case.id: case for case in cases(mode)}
    return [_figures(by_id[row["id"]], row["timings"], bandwidth) for row in measured]


def _figures(case: Case, timings: Sequence[Row], bandwidth: Row) -> Row:
    medians = {timing["id"]: a_round(timing) for timing in timings}
    floor = min(medians[name] for name in FLOORS if name in medians)
    lines = []
    for timing in timings:
        name = timing["id"]
        line = {key: quantile(timing["samples"], share) for key, share in HUNDREDTHS.items()}
        lines.append(line | {"id": name, "overFloor": spell(medians[name] / floor)})
        lines[-1]["overOurs"] = spell(medians[name] / medians[OURS])
    memory = Fraction(case.bytes_moved * quantile(bandwidth["samples"], 50), bandwidth["bytes"])
    return {"bytesMoved": case.bytes_moved, "id": case.id, "lines": lines, "memoryNs": spell(memory)}


def spell(value: Fraction) -> str:
    """A rational as a receipt holds it."""
    return f"{value.numerator}/{value.denominator}"


def conclude(
    mode: Mode, bits: Sequence[Row], measured: Sequence[Row], absent: Mapping[str, str], sampler: Row, gpu: str
) -> Conclusion:
    """Bits that differ fail and leave no figure; without any, the sentence says how long a round takes."""
    who = f"the kernels of {sampler['name']} {sampler['version']} on one {gpu}"
    red = [row for row in bits if row["mismatches"]]
    rows = sum(row["rows"] for row in bits)
    if red:
        reasons = [f"{row['id']}: {row['mismatches']:,} of {row['rows']:,} rows differ: {row['first']}" for row in red]
        sentence = f"FAIL: {who} differ from the reference in {len(red):,} of {len(bits):,} groups of bits"
        return Conclusion(
            verdict=Outcome.FAIL, reasons=reasons, sentence=f"{sentence}; no time is given. Self-attested."
        )
    said = [_said(mode, measured, part) for part in Part]
    missing = f"; {len(absent):,} others are absent" if absent else ""
    sentence = (
        f"PROBED: {who} {'; '.join(one for one in said if one)}{missing}. Bits equal the reference's in all "
        f"{rows:,} rows compared before and after. Times of one run, compared within it alone. Self-attested."
    )
    return Conclusion(verdict=Outcome.PROBED, reasons=[], sentence=sentence)


def _said(mode: Mode, measured: Sequence[Row], part: Part) -> str:
    """Of a part: our medians at its largest vocabulary, and how often we are ahead of who does the whole work."""
    timed = {row["id"]: {timing["id"]: a_round(timing) for timing in row["timings"]} for row in measured}
    mine = [case for case in cases(mode) if case.part is part and case.id in timed]
    if not mine:
        return ""
    largest = max(case.vocab for case in mine)
    depth = max(case.depth for case in mine)
    shown = [
        f"{microseconds(timed[case.id][OURS])} us (B{case.batch})"
        for case in mine
        if (case.vocab, case.depth, case.kind) == (largest, depth, Kind.RANDOM) and case.cache.value == "hot"
    ]
    whole = {one.name for one in contenders(part) if one.job is Job.WHOLE}
    ahead, met = 0, 0
    for case in mine:
        rivals = [timed[case.id][name] for name in whole & timed[case.id].keys()]
        met += len(rivals)
        ahead += sum(timed[case.id][OURS] < rival for rival in rivals)
    against = f"ahead in {ahead:,} of {met:,} meetings with samplers that do the same work" if met else "no peer ran"
    what = "draft" if part is Part.SELECTOR else "verify"
    return f"{what} a depth-{depth} round at vocabulary {largest:,} in {', '.join(shown)}, hot, {against}"


def microseconds(nanoseconds: Fraction) -> str:
    """Three or more digits of a time in microseconds."""
    value = float(nanoseconds) / 1000
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}" if value >= 100 else f"{value:.3g}"
