"""Faults in measured amounts, from one that no usual number of requests shows to one that every run does."""

from typing import Any

import numpy as np

from pp3.harness.faults.correct import Correct
from pp3.harness.faults.fault import Fault, Shows
from pp3.harness.faults.reshape import apportioned
from pp3.harness.faults.running import Integers
from pp3.harness.samplers.contract import Batch, Kind

LADDER = "study of statistics, section 3.1"


class WrongRatio(Correct):
    """Q of the ratio and the residual is off by a total variation: half of the mass is too large, half too small."""

    def __init__(self, size: float) -> None:
        super().__init__(Kind.VERIFIER)
        self.size = size

    def ratio_law(self, target: Any) -> Integers:
        """Moved by `size`."""
        return moved(super().ratio_law(target), self.size)


class WrongDraft(Correct):
    """What is drafted is off by a total variation, what the ratio divides by is not."""

    def __init__(self, size: float) -> None:
        super().__init__(Kind.PROPOSAL)
        self.size = size

    def draft_law(self, target: Any) -> Integers:
        """Moved by `size`."""
        return moved(super().draft_law(target), self.size)


def moved(rows: Integers, size: float) -> Integers:
    """Rows with `size` of their mass moved from the tokens of the first half to those of the second, in proportion."""
    total = rows.sum(axis=1, keepdims=True)
    first = np.cumsum(rows, axis=1) - rows < total / 2
    share = (rows * first).sum(axis=1, keepdims=True) / total
    return apportioned(rows * np.where(first, 1 - size / share, 1 + size / np.maximum(1 - share, 0.1)), total[:, 0])


class Copies(Correct):
    """A request has the words of the one before now and then."""

    def __init__(self, rho: float) -> None:
        super().__init__(Kind.PIPELINE)
        self.rho = rho

    def address(self, batch: Batch, purpose: str) -> Integers:
        """That of the request before with probability rho."""
        late = self.words_of(batch, "copy", 1, batch.requests)[:, 0] / 2.0**64 < self.rho
        return np.where(late, np.maximum(batch.requests - 1, 0), batch.requests)


def _dose(id: str, of: Any, size: float, **said: Any) -> Fault:
    about = f"{' '.join(of.__doc__.split())} Here {size:g}."
    made: dict[str, Any] = {"id": id, "report": LADDER, "about": about, "cause": "dose", "sampler": lambda: of(size)}
    return Fault(**made | said)


FAULTS = (
    *(
        _dose(f"dose-q-{size:g}", WrongRatio, size, targets=("far",), witness="accept", requests=requests)
        for size, requests in ((0.003, 2_200_000), (0.01, 200_000), (0.03, 32_000))
    ),
    *(
        _dose(f"dose-draft-{size:g}", WrongDraft, size, targets=("near",), witness="proposal", requests=requests)
        for size, requests in ((0.003, 3_600_000), (0.01, 330_000), (0.03, 37_000))
    ),
    *(
        _dose(
            f"dose-copy-{rho:g}",
            Copies,
            rho,
            targets=("near",),
            witness="match",
            requests=requests,
            shows=Shows.STREAM,
            others=("pair", "length-pair") if rho > 0.01 else (),
            sole=rho == 0.01,
        )
        for rho, requests in ((0.01, 110_000), (0.05, 20_000))
    ),
)
