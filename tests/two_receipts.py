"""A small campaign for two receipts, a wrong sampler for one of them, and their comparison."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from altered import Statement, reseal_plan
from forged import rejudge

from pp3.harness import canonical
from pp3.harness.campaign import of_document
from pp3.harness.evidence import receipt
from pp3.harness.regression.compare import Comparison, compare
from pp3.harness.regression.opened import open_receipt
from pp3.kernels import reference

SMALL = {"targets": ["disjoint", "invalidated"], "requests": 20_000, "paired": 64, "batch_sizes": [1, 3], "depths": [4]}


def small(**instead: Any) -> Any:
    """A campaign that runs in a second."""
    return of_document(SMALL | instead, "a test")


def smallest() -> Any:
    """One of a single target, at one batch size."""
    return small(targets=["invalidated"], batch_sizes=[1])


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
    reseal_plan(statement)
    rejudge(statement)
    return receipt.write(statement, folder)
