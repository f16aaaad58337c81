"""Edges of verification find: each planted fault is seen, by the short form too."""

from typing import Any

import numpy as np
import pytest
from edge_neighbours import FEW, hold_neighbours
from mutant_reference import mutant

from pp3.harness.backends import Reference
from pp3.harness.exact import edges
from pp3.harness.exact.edges import Pair
from pp3.harness.exact.enumeration import differences
from pp3.kernels import reference


@pytest.fixture
def two_pairs(monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    """Enumerate one pair that shares no token, and one that accepts, rejects and has a residual."""
    some = [pair for pair in FEW if pair.id in ("disjoint/row-0", "invalidated/row-2")]
    monkeypatch.setattr(edges, "pairs", lambda names=(): iter(some))
    return some


class Spoilt(Reference):
    """The reference with one ticket moved in what the verifier is handed."""

    def verify(self, target_probs: Any, draft_ids: Any, support: Any, tickets: Any, *rest: Any) -> Any:
        tickets = tickets.copy()
        tickets[..., 0] += 1
        tickets[..., 1] -= 1
        return reference.verify(target_probs, draft_ids, support, tickets, *rest)


class Failing(Reference):
    """The reference that fails the rounds it accepts, or those it rejects; their tokens and lengths stay if `kept`."""

    def __init__(self, length: int, kept: bool) -> None:
        self.length, self.kept = length, kept

    def verify(self, *given: Any) -> Any:
        found = reference.verify(*given)
        failed = found.num_sampled == self.length
        if not self.kept:
            found = found._replace(num_sampled=np.where(failed, 0, found.num_sampled))
        return found._replace(status=np.where(failed, reference.FAILED, found.status))


class Lengthened(Reference):
    """The reference that counts one token too many where it emits one."""

    def verify(self, *given: Any) -> Any:
        found = reference.verify(*given)
        return found._replace(num_sampled=np.where(found.num_sampled == 1, 2, found.num_sampled))


FAULTS: dict[str, tuple[Any, str]] = {
    "one ticket moved": (Spoilt, "accepting"),
    "accepted rounds fail": (lambda: Failing(2, kept=False), "accepting"),
    "accepted rounds fail with their tokens": (lambda: Failing(2, kept=True), "bonus"),
    "rejected rounds fail": (lambda: Failing(1, kept=False), "accepting"),
    "rejected rounds fail with their tokens": (lambda: Failing(1, kept=True), "residual"),
    "a length too many beside a full target": (Lengthened, "full-target"),
    "less or equal for less": (lambda: mutant("* mass < quanta << 8", "* mass <= quanta << 8"), "accepting"),
    "acceptance shifted by one": (
        lambda: mutant("w0.astype(np.int64) * mass <", "(w0.astype(np.int64) + 1) * mass <"),
        "accepting",
    ),
    "acceptance by the low bits of a ticket": (
        lambda: mutant("* mass < quanta << 8", "* (mass & ~1 | 1) < quanta << 8"),
        "accepting",
    ),
    "the residual shifted by one": (lambda: mutant("beyond = running > wanted", "beyond = running >= wanted"), "bonus"),
    "the residual's floor raised": (
        lambda: mutant(
            "    low, high = np.zeros(len(row)", "    wanted = wanted + 1\n    low, high = np.zeros(len(row)"
        ),
        "residual",
    ),
    "an invalidated draft treated as rejected": (
        lambda: mutant("emit_at[invalidated] = j", "emit_at[invalidated], rejected = j, rejected | invalidated"),
        "full-target",
    ),
    "a rejected draft treated as invalidated": (
        lambda: mutant("rejected |= alive & ~keep", "rejected |= False"),
        "residual",
    ),
    "a word shared by acceptance and residual": (
        lambda: mutant("block[:, 1].astype(np.uint64)", "block[:, 0].astype(np.uint64)"),
        "residual",
    ),
    "the halves of w64 exchanged": (
        lambda: mutant("block[:, 1].astype(np.uint64) | block[:, 2]", "block[:, 2].astype(np.uint64) | block[:, 1]"),
        "full-target",
    ),
    "a word shared by the last draft and the bonus": (
        lambda: mutant(
            "positions[who] + emit_at[who].astype(np.uint64))",
            "positions[who] + np.minimum(emit_at[who], depth - 1).astype(np.uint64))",
        ),
        "bonus",
    ),
    "a bonus of the wrong row": (
        lambda: mutant("_emit(rows, row[who, emit_at[who]],", "_emit(rows, row[who, 0],"),
        "bonus",
    ),
    "a residual of P where Q is larger": (
        lambda: mutant("np.minimum(rows.quanta[row[:, None], np.maximum(support, 0)], ", "np.multiply(1, "),
        "residual",
    ),
}


@pytest.mark.usefixtures("two_pairs")
@pytest.mark.parametrize(("plant", "what"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen(plant: Any, what: str) -> None:
    """In the integers that it is about."""
    wrong = differences(edges.observe(plant()).values, edges.expect())
    assert [line for line in wrong if f"/{what}" in line]


@pytest.mark.parametrize(("plant", "what"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_seen_by_the_short_form(plant: Any, what: str, two_pairs: list[Pair]) -> None:
    """What runs on every pair catches it, too."""
    backend = plant()
    with pytest.raises((AssertionError, IndexError)):
        assert sum(hold_neighbours(backend, pair) for pair in two_pairs)
