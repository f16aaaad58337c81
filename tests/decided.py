"""A small receipt, one thing changed in it and sealed anew, and what verify says of it."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from built import Measure, Statement, qualified, wired

from pp3.harness import campaign as campaigns
from pp3.harness import canonical
from pp3.harness.backends import Backend
from pp3.harness.evidence import kernels
from pp3.harness.evidence.review import Review
from pp3.harness.evidence.verified import Verified
from pp3.harness.evidence.verify import verify
from pp3.harness.seeds import Seed
from pp3.harness.shards.cut import cut

STAMP = "20260102T030405Z"  # of the start of what is built
PLAN = {"targets": ["disjoint", "sparse-tail"], "requests": 501, "paired": 21, "depths": [4, 5], "batch_sizes": [2, 3]}
WIRE_PLAN = {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}
NOWHERE = Path("/nowhere") / "receipts"
COMPILED = {"gpu": "X", "torch": "2", "triton": "3", "compiled_kernels_sha256": "0" * 64}
ZEROS = "0" * 64
PIECE = "paired,disjoint,depth-4,0-9"
CELL = "disjoint/depth-4/proposal/position-0/context-0"
Predicate = dict[str, Any]
Change = Callable[[Predicate], object]


def small_of(measure: Measure) -> Statement:
    """A receipt of two targets, depths and batch sizes."""
    return qualified(PLAN, measure)


def wired_of(measure: Measure) -> Statement:
    """One over the wire, of one target."""
    return wired(WIRE_PLAN, measure)


def name_of(content: bytes) -> str:
    """The name of a receipt of these bytes."""
    return f"{STAMP}-{hashlib.sha256(content).hexdigest()}.json"


def sealed(statement: Statement, review: Review | None = None, folder: Path = NOWHERE) -> Verified:
    """Verify a statement as a forger would write it: canonical, under its own digest."""
    content = canonical.encode(statement)
    return verify(folder / name_of(content), content, review=review)


def put(place: Any, key: str | int, value: Any) -> Any:
    """Set what stands there; the place."""
    place[key] = value
    return place


def named(changed: Statement, before: Statement) -> dict[str, str]:
    """What reasons name: the digests of the plan, the seed and the laws, and the first cell."""
    p, old = changed["predicate"], before["predicate"]
    return {
        "plan": canonical.sha256(p["plan"]),
        "before": old["planSha256"],
        "seed": Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex(),
        "drawn": old["seed"]["sha256"],
        "first_law": old["plan"]["targets"][0]["lawSha256"],
        "law": old["plan"]["targets"][1]["lawSha256"],
        "zeros": ZEROS,
        "cell": CELL,
    }


def said(found: Verified) -> str:
    """The step that fails and its reason."""
    return "" if found.failed is None else f"{found.failed.name}: {found.failed.detail}"


def on_a_gpu(p: Predicate, **identity: str) -> Predicate:
    """The same run as if on a GPU of this identity, with the groups of bits of one."""
    p["sampler"]["backend"] = "cuda"
    groups = kernels.expected_bits(campaigns.of_plan(p["plan"]), True)
    p["kernels"]["bits"] = [
        {"failedRows": 0, "first": "", "id": name, "mismatches": 0, "rows": n} for name, n in groups
    ]
    p["kernels"]["identity"] = {"backend": "cuda"} | identity
    return p


def in_pieces(p: Predicate, pieces: int = 0, ran: int = 0, repeated: int | None = None, unequal: Any = ()) -> Predicate:
    """As if run in pieces: so many more or fewer than the plan is cut into, all of them repeated or none."""
    n = len(cut(campaigns.of_plan(p["plan"]), Backend.REFERENCE))
    p["execution"] = {
        "attempts": 1,
        "devices": {"cpu": 1, "gpu": n - 1 + ran},
        "pieces": n + pieces,
        "repeated": 0 if repeated is None else n + repeated,
        "unequal": list(unequal),
    }
    return p


def more(p: Predicate, event: str, last: bool = False) -> Predicate:
    """One event more in the first cell of a kind, or in the last."""
    cells = [cell for cell in p["cells"] if f"/{event}/" in cell["id"]]
    cells[-1 if last else 0]["counts"][0] += 1
    return p


def stray(p: Predicate, outcome: int = 3, count: int = 1, more: int = 1) -> Predicate:
    """A forbidden outcome in the first cell, counted `more` times and named `count` times."""
    cell = p["cells"][0]
    cell["counts"][-1] += more
    p["strays"].append({"batch": cell["batch"], "cell": cell["id"], "count": count, "outcome": outcome})
    return p
