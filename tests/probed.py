"""A probe that nobody measured: the receipt of given times, for tests of what follows from them."""

from datetime import UTC, datetime
from typing import Any

from pp3.harness.evidence import probe
from pp3.harness.probe.plan import (
    COPY,
    FLOOR_DEPENDENT,
    FLOORS,
    OURS,
    Case,
    Mode,
    cases,
    contenders,
    groups,
    repetitions,
)

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLER = {"backend": "cuda", "maxVocab": 1 << 18, "minVocab": 32, "name": "pp3-top32", "version": "0.1.0"}
IDENTITY = {"backend": "cuda", "gpu": "a stand-in", "torch": "0", "triton": "0"}
ABSENT = ("flashinfer-top-k-first", "sglang-top-k")
LAUNCHES = 10


def seen(mode: Mode = Mode.QUICK) -> dict[str, Any]:
    """What a probe of a mode would have seen: times that follow from the names."""
    return {
        "absent": {f"selector/{name}": "not here" for name in ABSENT},
        "bandwidth": {"bytes": 1 << 30, "how": COPY, "samples": [250_000, 260_000, 255_000]},
        "bits": [{"failedRows": 0, "first": "", "id": id, "mismatches": 0, "rows": rows} for id, rows in groups(mode)],
        "cases": [{"id": case.id, "timings": timings(case, repetitions(mode))} for case in cases(mode)],
    }


def timings(case: Case, count: int) -> list[dict[str, Any]]:
    """Samples of each contestant of a case: the later it is named, the slower."""
    found = []
    for at, one in enumerate(contenders(case.part)):
        if one.name in ABSENT:
            continue
        base = {FLOORS[0]: 9_000, FLOOR_DEPENDENT: 7_000, OURS: 30_000 + 1_000 * min(case.batch, 10)}
        middle = base.get(one.name, 40_000 + 10_000 * at) * case.rounds
        found.append(
            {
                "id": one.name,
                "launches": LAUNCHES,
                "method": "graph",
                "rounds": case.rounds,
                "samples": [middle + 7 * (n - count // 2) for n in range(count)],
            }
        )
    return found


def statement(mode: Mode = Mode.QUICK, **changed: Any) -> dict[str, Any]:
    """A receipt's statement; `changed` replaces parts of what was seen."""
    return probe.build(mode, STARTED, dict(SAMPLER), dict(IDENTITY), {"torch": "0"}, seen(mode) | changed)
