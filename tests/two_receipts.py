"""A small campaign for two receipts, a wrong sampler for one of them, and their comparison."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import canonical
from pp3.harness.campaign import of_document, of_plan, plan_sha256
from pp3.harness.evidence import receipt
from pp3.harness.regression.compare import Comparison, compare
from pp3.harness.regression.opened import open_receipt
from pp3.harness.seeds import Seed
from pp3.harness.verdict import conclude
from pp3.kernels import reference

Statement = dict[str, Any]
SMALL = {"targets": ["disjoint", "invalidated"], "requests": 20_000, "paired": 64, "batch_sizes": [1, 3], "depths": [4]}


def small(**instead: Any) -> Any:
    """A campaign that runs in a second."""
    return of_document(SMALL | instead, "a test")


@contextmanager
def wrong_replacements() -> Iterator[None]:
    """A sampler that takes a third of its replacements from the target instead of the residual."""
    real = reference._emit

    def emit(rows: Any, row: Any, support: Any, tickets: Any, rejected: Any, w64: Any) -> Any:
        return real(rows, row, support, tickets, rejected & (w64[:, 3] % 3 > 0), w64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "_emit", emit)
        yield


def compared(old: Path, new: Path) -> Comparison:
    """Two receipts, compared."""
    return compare(open_receipt(old), open_receipt(new))


def resealed(path: Path, change: Callable[[Statement], object], folder: Path) -> Path:
    """A receipt whose integers were changed, everything derived made to follow, under its own name: verifies."""
    statement: Statement = canonical.decode(path.read_bytes())
    change(statement)
    p = statement["predicate"]
    campaign = of_plan(p["plan"])
    p["planSha256"] = plan_sha256(campaign)
    p["seed"]["sha256"] = Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex()
    judged = conclude(
        campaign,
        {(cell["id"], cell["batch"]): cell["counts"] for cell in p["cells"]},
        {(cell["id"], cell["batch"]): cell["first"] for cell in p["cells"]},
        p["breaches"],
        p["paired"],
        p["kernels"],
        p["sampler"],
    )
    p |= {"tests": [test.plain() for test in judged.tests], "verdict": judged.verdict.value, "sees": judged.sees}
    p |= {"deviations": [one.plain() for one in judged.deviations], "seedFamily": judged.seed_family}
    p |= {"reasons": judged.reasons, "sentence": judged.sentence}
    return receipt.write(statement, folder)
