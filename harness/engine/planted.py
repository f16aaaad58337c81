"""Planted faults of whole engines: each around an engine, or inside of ours, and the check that catches it.

Around any engine: what its runner does to requests on their way in, and to answers on their way out. Inside of ours:
what only its own steps can do. Every one is of a kind that was reported in public (study of faults, K numbers).
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pp3.harness.engine.contract import Answer, Ask, Engine, Finish
from pp3.harness.engine.law import Setting
from pp3.harness.engine.reference import Floats, Path, Purpose, ReferenceEngine, Row

Batch = Callable[[Sequence[Ask]], list[Ask]]


class Around:
    """An engine that changes requests or answers, batch by batch."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.facts = engine, engine.facts

    def asked(self, batch: Sequence[Ask]) -> list[Ask]:
        """What becomes of the requests of a batch."""
        return list(batch)

    def answered(self, batch: Sequence[Ask], answers: list[Answer]) -> list[Answer]:
        """What becomes of its answers, in the order of the requests."""
        return answers

    def answers(self, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
        """See the contract; a batch is as many requests as are in flight."""
        for first in range(0, len(asks), concurrency):
            batch = list(asks[first : first + concurrency])
            found = {answer.number: answer for answer in self.engine.answers(self.asked(batch), concurrency)}
            yield from self.answered(batch, [found[ask.number] for ask in batch])

    def close(self) -> None:
        """See the contract."""
        self.engine.close()


class RowOrder(Around):
    """The batch is reordered halfway, and rows of results are not: two requests get the rest of each other's tokens."""

    def answered(self, batch: Sequence[Ask], answers: list[Answer]) -> list[Answer]:
        """See Around."""
        for at in range(0, len(answers) - 1, 2):
            one, other = answers[at], answers[at + 1]
            half = min(len(one.tokens), len(other.tokens)) // 2
            if len(one.tokens) == len(other.tokens) and batch[at].temperature == batch[at + 1].temperature:
                answers[at] = dataclasses.replace(one, tokens=one.tokens[:half] + other.tokens[half:], steps=None)
                answers[at + 1] = dataclasses.replace(other, tokens=other.tokens[:half] + one.tokens[half:], steps=None)
        return answers


class Padding(Around):
    """The last column of a padded batch is read where a shorter prompt has ended: it loses its last token."""

    def asked(self, batch: Sequence[Ask]) -> list[Ask]:
        """See Around."""
        width = max(len(ask.prompt) for ask in batch)
        return [
            dataclasses.replace(ask, prompt=ask.prompt[:-1]) if 1 < len(ask.prompt) < width else ask for ask in batch
        ]


class SlotSeed(Around):
    """Seeds are looked up by slot, and slots begin with the second: each request has its neighbour's seed."""

    def asked(self, batch: Sequence[Ask]) -> list[Ask]:
        """See Around."""
        seeds = [ask.seed for ask in batch]
        return [dataclasses.replace(ask, seed=seed) for ask, seed in zip(batch, seeds[1:] + seeds[:1], strict=True)]


class FirstSeed(Around):
    """Only the first seed of a batch is used."""

    def asked(self, batch: Sequence[Ask]) -> list[Ask]:
        """See Around."""
        return [dataclasses.replace(ask, seed=batch[0].seed) for ask in batch]


class OnePath(Around):
    """Filters are applied where nothing is speculated, and nowhere else."""

    def asked(self, batch: Sequence[Ask]) -> list[Ask]:
        """See Around."""
        return [dataclasses.replace(ask, top_k=None, top_p=None, min_p=None) if ask.speculate else ask for ask in batch]


class FirstParameters(Around):
    """A batch has the temperature of its first request."""

    def asked(self, batch: Sequence[Ask]) -> list[Ask]:
        """See Around."""
        return [dataclasses.replace(ask, temperature=batch[0].temperature) for ask in batch]


class NoEnd(Around):
    """Nothing stops at the end of a sequence."""

    def asked(self, batch: Sequence[Ask]) -> list[Ask]:
        """See Around."""
        return [dataclasses.replace(ask, ignore_eos=True, stop=()) for ask in batch]


class LateEnd(Around):
    """The end is looked for in the last token of a step, so tokens of the step that follow it are kept."""

    def answered(self, batch: Sequence[Ask], answers: list[Answer]) -> list[Answer]:
        """See Around."""
        late = []
        for ask, answer in zip(batch, answers, strict=True):
            room = ask.length - len(answer.tokens)
            more = answer.tokens[-1:] * min(1, room) if answer.finish is Finish.STOP else ()
            late.append(dataclasses.replace(answer, tokens=answer.tokens + more, steps=None))
        return late


class Overshoot(Around):
    """A step's tokens are all kept, whatever length was asked for."""

    def asked(self, batch: Sequence[Ask]) -> list[Ask]:
        """See Around."""
        return [dataclasses.replace(ask, length=ask.length + 1) for ask in batch]


class ShiftedLogprobs(Around):
    """Log-probabilities are those of the token before."""

    def answered(self, batch: Sequence[Ask], answers: list[Answer]) -> list[Answer]:
        """See Around."""
        return [
            answer
            if answer.logprobs is None
            else dataclasses.replace(answer, logprobs=answer.logprobs[-1:] + answer.logprobs[:-1])
            for answer in answers
        ]


class StaleDraft(ReferenceEngine):
    """Drafts are judged by the proposal's laws of the step before, which still lie in the buffer."""

    stale: list[Floats] | None = None

    def ratio_laws(self, row: Row, laws: list[Floats]) -> list[Floats]:
        """See ReferenceEngine."""
        before, self.stale = self.stale, laws
        return before or laws


class RawDraft(ReferenceEngine):
    """Drafts are drawn from the filtered proposal and judged by the raw one."""

    def ratio_laws(self, row: Row, laws: list[Floats]) -> list[Floats]:
        """See ReferenceEngine."""
        raw, assert_draft = [], self.draft
        assert assert_draft is not None
        kept, row.setting = row.setting, Setting(temperature=row.setting.temperature or 1.0)
        for j in range(len(laws)):
            place = len(row.tokens) + j - 1
            before = row.last if j == 0 else pick_again(laws[j - 1], self.uniform(row, place, Purpose.DRAFT))
            raw.append(self.law(row, Path.DRAFT, before, ()))
        row.setting = kept
        return raw


class BonusOnly(ReferenceEngine):
    """min-p is applied to the token after all drafts, and not where drafts are judged."""

    def law(self, row: Row, path: Path, before: int, pending: Sequence[int]) -> Floats:
        """See ReferenceEngine."""
        if path is not Path.VERIFY or row.setting.min_p is None:
            return super().law(row, path, before, pending)
        kept, row.setting = row.setting, dataclasses.replace(row.setting, min_p=None)
        found = super().law(row, path, before, pending)
        row.setting = kept
        return found


class LastOnly(ReferenceEngine):
    """A penalty learns of the last token of a step alone."""

    def law(self, row: Row, path: Path, before: int, pending: Sequence[int]) -> Floats:
        """See ReferenceEngine."""
        if row.setting.repetition_penalty is None:
            return super().law(row, path, before, pending)
        kept, ends = row.tokens, np.cumsum(row.steps, dtype=np.int64) - 1
        row.tokens = [kept[at] for at in ends.tolist()]
        found = super().law(row, path, before, ())
        row.tokens = kept
        return found


class EarlyBonus(ReferenceEngine):
    """The token after all drafts is drawn from the row before its own."""

    def law(self, row: Row, path: Path, before: int, pending: Sequence[int]) -> Floats:
        """See ReferenceEngine."""
        if path is Path.BONUS and len(pending) > 1:
            return super().law(row, path, pending[-2], pending)
        return super().law(row, path, before, pending)


class FrozenGraph(ReferenceEngine):
    """A captured graph draws the same numbers for a slot in every batch."""

    def key_of(self, ask: Ask, slot: int) -> int:
        """See ReferenceEngine."""
        return slot + 1


class SharedNoise(ReferenceEngine):
    """All rows of a batch draw the same numbers."""

    def key_of(self, ask: Ask, slot: int) -> int:
        """See ReferenceEngine."""
        return self.waves + 1


def pick_again(law: Floats, uniform: float) -> int:
    """The draft that was drawn from a law with this number."""
    sums = np.cumsum(law)
    return int(np.searchsorted(sums, uniform * sums[-1], side="right"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A planted fault, and the check that must catch it."""

    kind: type[Around] | type[ReferenceEngine]
    report: str  # a public report of its kind
    condition: str  # that is run
    check: str

    @property
    def name(self) -> str:
        """Of its class."""
        return self.kind.__name__


FAULTS = (
    Fault(kind=RowOrder, report="vLLM PR 41044", condition="stream", check="stream/token"),
    Fault(kind=Padding, report="vLLM PR 47066", condition="starts", check="starts/position-0"),
    Fault(kind=SlotSeed, report="NVIDIA/TensorRT-LLM PR 1742", condition="replay", check="replay/batch"),
    Fault(kind=FirstSeed, report="flashinfer PR 4861", condition="seeded", check="seeded/neighbour"),
    Fault(kind=OnePath, report="vLLM issue 9834", condition="top-k", check="top-k/rank"),
    Fault(kind=BonusOnly, report="vLLM issue 42744", condition="min-p", check="min-p/rank"),
    Fault(kind=LastOnly, report="sgl-project/sglang PR 33643", condition="penalty", check="penalty/rank"),
    Fault(kind=FirstParameters, report="omlx PR 1824", condition="company", check="company/warm/rank"),
    Fault(kind=StaleDraft, report="vLLM PR 41044", condition="stream", check="stream/rank"),
    Fault(kind=RawDraft, report="huggingface/transformers issue 47932", condition="top-k", check="top-k/tilt"),
    Fault(kind=EarlyBonus, report="vLLM PR 9730", condition="stream", check="stream/place-3"),
    Fault(kind=FrozenGraph, report="NVIDIA/Megatron-LM PR 5697", condition="stream", check="stream/slot"),
    Fault(kind=SharedNoise, report="NVIDIA/TensorRT-LLM issue 212", condition="stream", check="stream/neighbour"),
    Fault(kind=NoEnd, report="huggingface/transformers issue 47912", condition="end", check="end/after"),
    Fault(kind=LateEnd, report="huggingface/transformers issue 47912", condition="end", check="end/after"),
    Fault(kind=Overshoot, report="huggingface/transformers issue 47912", condition="starts", check="length"),
    Fault(
        kind=ShiftedLogprobs,
        report="PaddlePaddle/FastDeploy PR 7773",
        condition="logprobs",
        check="logprobs/tolerance",
    ),
)
