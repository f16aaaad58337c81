"""K12 to K15: what the contract asks for besides a law: repeatable, complete, inside the vocabulary, as declared."""

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.faults.correct import Correct, Round
from pp3.harness.faults.fault import MADE, Shows, planting
from pp3.harness.faults.running import Integers, Words
from pp3.harness.samplers.contract import Batch, Emission, Kind, Rule
from pp3.harness.tally import start_of

plant = planting("contract")
UNWRITTEN = 1061800448


class FirstSeed(Correct):
    """The seed of a launch's first request is every row's; rows differ by their place in the launch."""

    def address(self, batch: Batch, purpose: str) -> Integers:
        """First request and place, which are the request again as long as launches follow each other."""
        found: Integers = batch.requests[0] + np.arange(len(batch))
        return found


class SaltedBySlot(Correct):
    """Words follow from the slot, which is the place in the launch, and not from the request."""

    def words(self, batch: Batch, purpose: str, count: int) -> Words:
        """Every word turned by its place."""
        turned = (np.arange(len(batch), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))[:, None]
        return super().words(batch, purpose, count) + turned


class OwnCoins(Correct):
    """Each replica judges with coins of its own; a second run of the same requests keeps other drafts."""

    def __init__(self, kind: str = Kind.VERIFIER) -> None:
        super().__init__(kind)
        self._runs = 0

    def coins(self, this: Round) -> Words:
        """Turned by how many runs there were before."""
        self._runs += 1
        turned = np.uint64(self._runs * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
        return super().coins(this) + turned


class KeepsVoid(Correct):
    """A draft of -1 indexes what lies before the row, and is kept."""

    def accept(self, this: Round) -> npt.NDArray[np.bool_]:
        """As if it were the last id."""
        return super().accept(this) | (this.drafts < 0)


class Unwritten(Correct):
    """One time in 1,024 no lane finds a winner and the output is not written."""

    def last(self, this: Round, length: Integers) -> Integers:
        """What the memory held."""
        missed = self.words(this.batch, "winner", 1)[:, 0] >> np.uint64(54) == 0
        return np.where(missed, UNWRITTEN, super().last(this, length))


class OneBeyond(Correct):
    """A row with masked tokens goes through NaN, and its argmax is the padding's first id, V."""

    def run(self, batch: Batch) -> Any:
        """One request in 64 of those."""
        found = super().run(batch)
        start = self.plain_rows(batch, start_of(batch.target, batch.requests))
        lost = (batch.target.weights[start] == 0).any(axis=1)
        lost &= self.words(batch, "padding", 1)[:, 0] >> np.uint64(58) == 0
        return np.where(lost, batch.target.weights.shape[1], found)


class Uniform(Correct):
    """A row that holds minus infinity is cleaned as a whole: it becomes uniform and looks healthy."""

    def plain_law(self, target: Any) -> Integers:
        """All tokens alike where any is masked."""
        law = super().plain_law(target)
        return np.where((law == 0).any(axis=1, keepdims=True), 1, law)


class StaleCounts(Correct):
    """One time in sixteen the host reads the number of tokens before it has arrived: that of the request before."""

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """Tokens are right."""
        found = super().emit(this, proposed, length, last)
        early = self.words(this.batch, "copy", 1)[:, 0] >> np.uint64(60) == 0
        count = np.where(early, np.roll(found.num_sampled, 1), found.num_sampled)
        return Emission(tokens=found.tokens, num_sampled=count, drafts=found.drafts, proposed=found.proposed)


class Placeholders(Correct):
    """Only the last of several placeholders is replaced by a token."""

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """-1 in all cells but the last."""
        found = super().emit(this, proposed, length, last)
        before = np.arange(found.tokens.shape[1]) < length[:, None]
        tokens = np.where(before, -1, found.tokens)
        return Emission(tokens=tokens, num_sampled=length + 1, drafts=found.drafts, proposed=found.proposed)


class NoTokens(Correct):
    """A round whose first draft is rejected is reported with no token."""

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """The number of drafts kept instead of the number of tokens."""
        found = super().emit(this, proposed, length, last)
        return Emission(tokens=found.tokens, num_sampled=length, drafts=found.drafts, proposed=found.proposed)


class OtherDrafts(Correct):
    """The drafts that are reported are those of the request before."""

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """Rolled."""
        found = super().emit(this, proposed, length, last)
        drafts = np.roll(this.drafts, 1, axis=0)
        return Emission(tokens=found.tokens, num_sampled=found.num_sampled, drafts=drafts, proposed=proposed)


class IgnoredMode(Correct):
    """Block verification is accepted as an option, and ignored."""

    declared = MappingProxyType({"rule": Rule.BLOCK})


class InPlace(Correct):
    """The draft's entry of the target's row is zeroed before the row is copied."""

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """In the tensor that was given."""
        rows = np.arange(len(length))
        this.batch.target_probs[rows, 0, this.tokens[:, 0]] = 0
        return super().emit(this, proposed, length, last)


class Columns(Correct):
    """The bonus column is left out of what is returned."""

    def emit(self, this: Round, proposed: Integers, length: Integers, last: Integers) -> Emission:
        """[n, depth]."""
        found = super().emit(this, proposed, length, last)
        return Emission(tokens=found.tokens[:, :-1], num_sampled=found.num_sampled)


class Floats(Correct):
    """Tokens come back as floats."""

    def run(self, batch: Batch) -> Any:
        """FP32, which holds ids up to 2^24."""
        return super().run(batch).astype(np.float32)


class Raises(Correct):
    """An index error when a whole launch keeps no draft in some column; here where a round keeps every draft."""

    def bonus(self, this: Round, which: Integers) -> Integers:
        """The bonus row is not there."""
        rows = this.batch.target.row_of[: this.batch.depth]
        found: Integers = rows[this.batch.depth, this.contexts[which, -1]]
        return found


CONTRACT: dict[str, Any] = {"shows": Shows.CONTRACT}
EXACT: dict[str, Any] = {"shows": Shows.EXACT}
PLAIN: dict[str, Any] = {"kind": Kind.PLAIN, "requests": 4_000}
NAN = "vLLM PRs 21876 and 45060; triton issues 10291 and 9022"
FAULTS = (
    plant("K2-010/in-place", InPlace, "invalid", "vllm-project/vllm-ascend PR 2881", ("near",), **CONTRACT),
    plant("K12-057", FirstSeed, "exact:invariance", "flashinfer PR 4861", ("near",), **EXACT),
    plant("K12-059", OwnCoins, "exact:replay", "vLLM issue 17498", ("near",), **EXACT),
    plant("K12-061", SaltedBySlot, "exact:invariance", "tenstorrent/tt-metal issue 53802", ("near",), **EXACT),
    plant("K13-062", OneBeyond, "breach", NAN, ("rows-of-1000",), **CONTRACT | PLAIN),
    plant("K13-063", KeepsVoid, "breach", "flashinfer issue 879", ("void",), **CONTRACT),
    plant("K13-065", Unwritten, "breach", "flashinfer issue 384", ("near",), **CONTRACT),
    plant("K13-066", Uniform, "forbidden", "sgl-project/sglang issue 33187", ("rows-of-1000",), **PLAIN),
    plant("K14-068", StaleCounts, "breach", "vLLM PR 36013", ("near",), **CONTRACT),
    plant("K14-069", Placeholders, "breach", "vLLM PR 30122", ("near",), **CONTRACT),
    plant("K14/length", NoTokens, "breach", "vLLM PR 36013", ("near",), **CONTRACT),
    plant("K14/drafts", OtherDrafts, "breach", "vLLM PR 36013", ("near",), **CONTRACT, kind=Kind.PIPELINE),
    plant("K14/columns", Columns, "invalid", MADE, ("near",), **CONTRACT),
    plant("K14/floats", Floats, "invalid", MADE, ("rows-of-12",), **CONTRACT | PLAIN),
    plant("K14/raises", Raises, "invalid", MADE, ("near",), **CONTRACT),
    plant(
        "K15-072",
        IgnoredMode,
        "joint",
        "vllm-project/vllm-ascend PR 15673",
        ("whole",),
        requests=55_000,
        others=("forbidden", "length"),
    ),
)
