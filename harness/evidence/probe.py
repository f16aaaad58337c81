"""The receipt of a probe: build it from what was seen, and work every figure out again from its raw samples."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pp3 import __version__
from pp3.harness import canonical
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import NON_CLAIMS, utc
from pp3.harness.evidence.shapes import PREDICATE, STATEMENT
from pp3.harness.evidence.step import each
from pp3.harness.evidence.verified import Step
from pp3.harness.probe.figures import EXCLUSIONS, Conclusion, conclude, figures
from pp3.harness.probe.plan import COPY, FLOOR, FLOORS, MUST, OURS, Mode, cases, contenders, groups, plain, repetitions

KIND = "probe"
GPU = "GPU"
STEPS = ("plan", "kernels", "samples", "recompute figures", "verdict")


def build(
    mode: Mode,
    started: datetime,
    sampler: dict[str, Any],
    identity: dict[str, str],
    peers: dict[str, str],
    seen: dict[str, Any],
) -> dict[str, Any]:
    """The statement of one probe; `seen` has absent, bandwidth, bits and cases in receipt form."""
    judged = judge(mode, seen["bits"], seen["cases"], seen["absent"], sampler, identity)
    return {
        "_type": STATEMENT,
        "predicateType": PREDICATE,
        "subject": provenance.sources(KIND),
        "predicate": {
            "absent": seen["absent"],
            "assurance": "self-attested",
            "bandwidth": seen["bandwidth"],
            "cases": seen["cases"],
            "environment": provenance.environment(),
            "exclusions": list(EXCLUSIONS),
            "figures": figures(mode, seen["cases"], seen["bandwidth"]),
            "kernels": {"bits": seen["bits"], "conform": [], "identity": identity},
            "kind": KIND,
            "nonClaims": list(NON_CLAIMS),
            "peers": peers,
            "plan": plain(mode),
            "profile": KIND,
            "reasons": judged.reasons,
            "run": {"finishedUtc": utc(datetime.now(UTC)), "startedUtc": utc(started)},
            "sampler": sampler,
            "sentence": judged.sentence,
            "tool": {"name": "pp3", "version": __version__},
            "verdict": judged.verdict.value,
        },
    }


def judge(
    mode: Mode,
    bits: list[dict[str, Any]],
    measured: list[dict[str, Any]],
    absent: dict[str, str],
    sampler: dict[str, Any],
    identity: dict[str, str],
) -> Conclusion:
    """The verdict of a probe on the device that an identity names."""
    return conclude(mode, bits, measured, absent, sampler, identity.get("gpu", GPU))


def steps(predicate: dict[str, Any]) -> Iterator[tuple[str, str, Conclusion | None]]:
    """Name and detail of each step that holds, the last with the verdict. VerificationError names one that does not."""
    mode = Mode(predicate["plan"]["mode"])
    same("plan", predicate["plan"], plain(mode))
    same("plan", predicate["profile"], KIND)
    same("plan", predicate["exclusions"], list(EXCLUSIONS))
    yield "plan", f"{len(cases(mode))} cases of the {mode} probe", None
    _bits(mode, predicate["kernels"])
    bits = predicate["kernels"]["bits"]
    yield "kernels", f"{sum(row['rows'] for row in bits):,} rows of bits, as the plan implies", None
    if any(row["mismatches"] for row in bits):
        same("samples", predicate["cases"], [])
    else:
        _samples(mode, predicate)
    count = sum(len(timing["samples"]) for row in predicate["cases"] for timing in row["timings"])
    yield "samples", f"{count:,} of {len(predicate['cases'])} cases", None
    same("recompute figures", predicate["figures"], figures(mode, predicate["cases"], predicate["bandwidth"]))
    lines = sum(len(row["lines"]) for row in predicate["figures"])
    yield "recompute figures", f"{lines:,} medians and ratios", None
    parts = (bits, predicate["cases"], predicate["absent"])
    yield "verdict", "", judge(mode, *parts, predicate["sampler"], predicate["kernels"]["identity"])


def same(step: str, said: Any, mine: Any) -> None:
    """VerificationError unless two values have the same canonical bytes."""
    if canonical.encode(said) != canonical.encode(mine):
        raise VerificationError(f"{step}: the receipt says {_short(said)}, it comes to {_short(mine)}")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:120]}..."


def _bits(mode: Mode, kernels: dict[str, Any]) -> None:
    """Each case before and after, as many rows as it has; nothing else is shown of the kernels."""
    if [(row["id"], row["rows"]) for row in kernels["bits"]] != groups(mode):
        raise VerificationError("kernels: the groups of bits are not those of the plan")
    odd = [row["id"] for row in kernels["bits"] if max(row["mismatches"], row["failedRows"]) > row["rows"]]
    if odd or kernels["conform"] or kernels.get("missing"):
        raise VerificationError(f"kernels: {odd[0] if odd else 'known answers'}: more than the plan implies")


def _samples(mode: Mode, predicate: dict[str, Any]) -> None:
    """Every case of the plan, every contestant timed or absent, as many samples of each as planned."""
    same("samples", [row["id"] for row in predicate["cases"]], [case.id for case in cases(mode)])
    same("samples", predicate["bandwidth"]["how"], COPY)
    for row, case in zip(predicate["cases"], cases(mode), strict=True):
        known = [one.name for one in contenders(case.part)]
        timed = [timing["id"] for timing in row["timings"]]
        if timed != [name for name in known if name in timed]:
            raise VerificationError(f"samples: {case.id}: {', '.join(timed)} are not in the order of the plan")
        left = [name for name in known if name not in timed]
        silent = [name for name in left if name in MUST or f"{case.part}/{name}" not in predicate["absent"]]
        if silent:
            raise VerificationError(f"samples: {case.id}: {silent[0]} is neither timed nor said to be absent")
        for timing in row["timings"]:
            _timing(case.id, case.rounds, timing, repetitions(mode))
        launches = {timing["id"]: timing["launches"] for timing in row["timings"]}
        if any(launches[name] != launches[OURS] for name in FLOORS if name in launches):
            raise VerificationError(
                f"samples: {case.id}: the floor launches {launches[FLOOR]} times, not as often as ours"
            )


def _timing(name: str, rounds: int, timing: dict[str, Any], count: int) -> None:
    if len(timing["samples"]) != count:
        raise VerificationError(f"samples: {name}: {timing['id']} has {len(timing['samples'])}, the plan {count}")
    if timing["rounds"] > rounds or (timing["rounds"] < rounds and timing["id"] in MUST):
        raise VerificationError(f"samples: {name}: {timing['id']} is of {timing['rounds']} rounds, not {rounds}")
    if (timing["method"] == "graph") != (timing["launches"] > 0):
        raise VerificationError(f"samples: {name}: {timing['id']}: a graph has launches, and nothing else has")


def recomputed(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a probe."""
    yield from each(STEPS, steps(predicate), predicate)
