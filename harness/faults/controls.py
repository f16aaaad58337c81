"""C1 to C5: right rules that look wrong. A battery that rejects one of them is no battery."""

from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from pp3.harness.faults.acceptance import PointMass
from pp3.harness.faults.correct import Correct, Round
from pp3.harness.faults.fault import Control
from pp3.harness.faults.running import Integers
from pp3.harness.faults.truncation import Filtered
from pp3.harness.samplers.contract import Carrier, Kind, Rule, Void


class OneHot(PointMass):
    """Each draft counts as a point mass, and that is what is declared: kept with P(x), replaced from P without x."""

    declared = MappingProxyType({"draft_carrier": Carrier.ONE_HOT})


class Candidates(Correct):
    """A rejected draft is followed by the likeliest of what is left, kept with its share of it, else by another."""

    def replace(self, this: Round, which: Integers, at: Integers) -> Integers:
        """The second candidate is a point mass among the residual."""
        pair = self.pairs(this)[which, at]
        residual, total = this.tables.residual.weights[pair], this.tables.residual.totals[pair]
        second, rows = residual.argmax(axis=1), np.arange(len(which))
        coin = self.words(this.batch, "candidate", 1)[which, 0] >> np.uint64(1)
        share = residual[rows, second].astype(object) * (1 << 63)
        kept = coin < np.array(-(-share // total.astype(object))).astype(np.uint64)
        rest = np.where(np.arange(residual.shape[1]) == second[:, None], 0, residual)
        other = self.running(rest + (rest.sum(axis=1, keepdims=True) == 0)).draw(rows, self.replacing(this, which, at))
        return np.where(kept, second, other)


class SampleMatch(Correct):
    """A token is drawn from the target, the draft kept where it is equal, and the token emitted either way."""

    declared = MappingProxyType({"rule": Rule.SAMPLE_MATCH, "void": Void.FULL_TARGET})

    def accept(self, this: Round) -> npt.NDArray[np.bool_]:
        """Whether the draw is the draft."""
        kept: npt.NDArray[np.bool_] = self._drawn(this) == this.drafts
        return kept

    def replace(self, this: Round, which: Integers, at: Integers) -> Integers:
        """The draw that was not the draft."""
        return self._drawn(this)[which, at]

    def _drawn(self, this: Round) -> Integers:
        words = self.coins(this)
        rows = self.target_row(this.batch.target, np.arange(this.batch.depth), this.contexts[:, :-1], this.tokens)
        columns = [this.tables.bonus.draw(rows[:, j], words[:, j]) for j in range(this.batch.depth)]
        return np.stack(columns, axis=1)


class Plain(Filtered):
    """Rows with exact ties, the rule declared: of equal tokens the lower ids are kept."""


def _control(id: str, of: type[Correct], kind: Kind, targets: tuple[str, ...] = ()) -> Control:
    about = " ".join((of.__doc__ or "").split())
    return Control(id=id, about=about, sampler=lambda: of(kind), targets=targets)


CONTROLS = (
    _control("C0/plain", Correct, Kind.PLAIN),
    _control("C0/proposal", Correct, Kind.PROPOSAL),
    _control("C0/verifier", Correct, Kind.VERIFIER),
    _control("C0/pipeline", Correct, Kind.PIPELINE),
    _control("C1", OneHot, Kind.VERIFIER),
    _control("C2", Candidates, Kind.VERIFIER),
    _control("C3", SampleMatch, Kind.VERIFIER),
    _control("C4", OneHot, Kind.PIPELINE),
    _control("C5", Plain, Kind.PLAIN),
)
