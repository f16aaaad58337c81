"""A sampler that does what a test says, and what becomes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pp3 import Batch, Description, Emission, Report, qualify
from pp3.harness.samplers.torch_controls import Multinomial, StandardRejection

Run = Callable[[Batch], Any]
REQUESTS = 600  # of each law; more than a batch is not needed to break a contract
POISON = 9223372036854775807
SMALL = ("rows-of-12", "rows-of-63")


@dataclass(frozen=True)
class Planted:
    """A sampler of a kind that does this."""

    kind: str
    does: Run

    def describe(self) -> Description:
        """See the contract."""
        filters = ("temperature",) if self.kind == "plain" else ()
        return Description(
            name="planted",
            kind=self.kind,
            target_carrier="logits" if self.kind == "plain" else "probs",
            filters=filters,
        )

    def run(self, batch: Batch) -> Any:
        """One round."""
        return self.does(batch)


def judged(kind: str, does: Run, **more: Any) -> Report:
    """What becomes of it; two targets of its kind."""
    given: dict[str, Any] = {"targets": SMALL if kind == "plain" else ("near", "shared-noise"), "requests": REQUESTS}
    return qualify(Planted(kind, does), device="cpu", **given | more)


def right(batch: Batch) -> Any:
    """Plain sampling as it should be."""
    return Multinomial().run(batch)[:, 0]


def round_of(batch: Batch) -> Emission:
    """Verification as it should be."""
    return StandardRejection().run(batch)


def after(change: Callable[[Batch], object]) -> Run:
    """Plain sampling that does something to its batch first."""

    def run(batch: Batch) -> Any:
        tokens = right(batch)
        change(batch)
        return tokens

    return run


def verified(change: Callable[[Batch, Emission], Any]) -> Run:
    """Verification whose result is changed."""
    return lambda batch: change(batch, round_of(batch))
