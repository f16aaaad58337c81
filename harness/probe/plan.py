"""What a probe measures: its cases in order, and who meets in each. Loads neither torch nor triton.

A case is one part (selector or verifier) at one size, on one kind of rows, its inputs hot in L2 or cold. A round of the
selector drafts `depth` tokens a request, one position after the other; a round of the verifier judges them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pp3.kernels.reference import SUPPORT

WARMUPS, ROUNDS, REPETITIONS, QUICK_REPETITIONS = 3, 10, 100, 20
SETS = 10  # of tensors in a cold case, one a round
VOCABS, DEPTHS, BATCHES = (129_280, 151_936, 163_840), (4, 5), (1, 2, 3, 4)
MANY, SMALL_VOCAB = 200_000, 64  # requests of the verifier's large case, and its vocabulary
CHECKED = 20_000  # of those, spread over all, held against the reference
BF16_BYTES, FP32_BYTES, INT32_BYTES = 2, 4, 4
REQUEST_BYTES = 4 + 3 * 8  # sampled int32; key, round and position int64
OURS, FLOOR, FLOOR_DEPENDENT = "ours", "floor", "floor-dependent"
FLOORS = (FLOOR, FLOOR_DEPENDENT)
BEFORE, AFTER = "before", "after"
COPY = "a copy on the device, timed in this run: bytes read and written over the median time"


class Part(StrEnum):
    """What is timed."""

    SELECTOR = "selector"
    VERIFIER = "verifier"


class Kind(StrEnum):
    """What rows are like; probe/rows.py makes them."""

    RANDOM = "random"
    SORTED = "sorted"
    CLUSTERED = "clustered"
    TIES = "ties"
    EQUAL = "equal"


class Cache(StrEnum):
    """Where the inputs lie when a round begins."""

    HOT = "hot"
    COLD = "cold"


class Mode(StrEnum):
    """How much is measured."""

    FULL = "full"
    QUICK = "quick"


class Job(StrEnum):
    """How a contestant's work compares with ours."""

    FLOOR = "floor"  # empty launches
    OURS = "ours"
    WHOLE = "whole"  # the same: of the selector the 32 largest and a draw from them; of the verifier the round
    PART = "part"  # less than that: no fused selector, whatever its time


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Who takes part, and what it does in a round."""

    name: str
    part: Part
    job: Job
    about: str


CONTENDERS = (
    Contender(name=FLOOR, part=Part.SELECTOR, job=Job.FLOOR, about="as many empty launches, one after the other"),
    Contender(
        name=FLOOR_DEPENDENT, part=Part.SELECTOR, job=Job.FLOOR, about="the same by programmatic dependent launch"
    ),
    Contender(name=OURS, part=Part.SELECTOR, job=Job.OURS, about="pp3.kernels.proposal: support, tickets and draw"),
    Contender(name="torch-argmax", part=Part.SELECTOR, job=Job.PART, about="torch.argmax: no support and no draw"),
    Contender(name="torch-topk", part=Part.SELECTOR, job=Job.PART, about="torch.topk of 32: no draw"),
    Contender(name="torch-topk-draw", part=Part.SELECTOR, job=Job.WHOLE, about="torch.topk, softmax and multinomial"),
    Contender(
        name="flashinfer-probs",
        part=Part.SELECTOR,
        job=Job.PART,
        about="FlashInfer's top_k_sampling_from_probs of given probabilities: no softmax",
    ),
    Contender(
        name="flashinfer-top-k",
        part=Part.SELECTOR,
        job=Job.WHOLE,
        about="FlashInfer's softmax and top_k_sampling_from_probs",
    ),
    Contender(
        name="flashinfer-top-k-first",
        part=Part.SELECTOR,
        job=Job.WHOLE,
        about="FlashInfer's top_k_top_p_sampling_from_logits: its radix top-k, softmax and draw",
    ),
    Contender(
        name="vllm-top-k",
        part=Part.SELECTOR,
        job=Job.WHOLE,
        about="vLLM's apply_top_k_top_p_triton, softmax and random_sample",
    ),
    Contender(
        name="vllm-gumbel",
        part=Part.SELECTOR,
        job=Job.PART,
        about="vLLM's gumbel_sample of the whole vocabulary: no top-k and no support",
    ),
    Contender(name="sglang-top-k", part=Part.SELECTOR, job=Job.WHOLE, about="SGLang's sampler"),
    Contender(name=FLOOR, part=Part.VERIFIER, job=Job.FLOOR, about="as many empty launches, one after the other"),
    Contender(
        name=FLOOR_DEPENDENT, part=Part.VERIFIER, job=Job.FLOOR, about="the same by programmatic dependent launch"
    ),
    Contender(name=OURS, part=Part.VERIFIER, job=Job.OURS, about="pp3.kernels.verifier, drafts as tickets"),
    Contender(
        name="vllm-v2", part=Part.VERIFIER, job=Job.WHOLE, about="vLLM's rejection_sample of logits, drafts as logits"
    ),
    Contender(
        name="sglang-chain",
        part=Part.VERIFIER,
        job=Job.WHOLE,
        about="SGLang's chain_speculative_sampling_triton of probabilities, buffers filled beforehand",
    ),
    Contender(
        name="flashinfer-chain",
        part=Part.VERIFIER,
        job=Job.WHOLE,
        about="FlashInfer's chain_speculative_sampling of probabilities",
    ),
)
MUST = (FLOOR, OURS)  # without these there is no figure; any other may be absent, with its reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One size and kind of work."""

    part: Part
    vocab: int
    depth: int
    batch: int
    kind: Kind = Kind.RANDOM
    cache: Cache = Cache.HOT

    @property
    def id(self) -> str:
        """Its name in a receipt."""
        size = f"{self.part}/vocab-{self.vocab}/depth-{self.depth}/batch-{self.batch}"
        return f"{size}/{self.kind}/{self.cache}"

    @property
    def rounds(self) -> int:
        """Rounds between two events; of the large case, whose round takes milliseconds, one."""
        return 1 if self.batch >= MANY else ROUNDS

    @property
    def sets(self) -> int:
        """Sets of tensors that its rounds go through."""
        return SETS if self.cache is Cache.COLD else 1

    @property
    def checked(self) -> int:
        """Rows held against the reference each time: drafts of the selector, requests of the verifier."""
        return self.sets * (self.depth * self.batch if self.part is Part.SELECTOR else min(self.batch, CHECKED))

    @property
    def bytes_moved(self) -> int:
        """The fewest bytes of a round: each input read once, each output written once."""
        if self.part is Part.SELECTOR:
            drafted = (1 + 2 * SUPPORT) * INT32_BYTES
            return self.depth * self.batch * (self.vocab * BF16_BYTES + REQUEST_BYTES + drafted + INT32_BYTES)
        columns = self.depth + 1
        carried = self.depth * (1 + 2 * SUPPORT) * INT32_BYTES
        emitted = (columns + 2) * INT32_BYTES
        return self.batch * (columns * self.vocab * FP32_BYTES + carried + REQUEST_BYTES + emitted)


def cases(mode: Mode) -> list[Case]:
    """Every case of a mode, in the order they are measured."""
    largest, deepest = max(VOCABS), max(DEPTHS)

    def selector(vocab: int, depth: int, batch: int, kind: Kind = Kind.RANDOM, cache: Cache = Cache.HOT) -> Case:
        return Case(part=Part.SELECTOR, vocab=vocab, depth=depth, batch=batch, kind=kind, cache=cache)

    others = [kind for kind in Kind if kind is not Kind.RANDOM]
    if mode is Mode.QUICK:
        found = [selector(largest, deepest, batch) for batch in (1, 4)]
        found.append(selector(largest, deepest, 1, cache=Cache.COLD))
        found.append(selector(largest, deepest, 1, kind=Kind.EQUAL))
        sizes = [(largest, 1), (SMALL_VOCAB, MANY)]
    else:
        found = []
        for vocab in VOCABS:
            found += [selector(vocab, depth, batch) for depth in DEPTHS for batch in BATCHES]
            found += [selector(vocab, deepest, batch, cache=Cache.COLD) for batch in BATCHES]
        found += [selector(largest, deepest, batch, kind=kind) for kind in others for batch in BATCHES]
        sizes = [*((largest, batch) for batch in BATCHES), (SMALL_VOCAB, MANY)]
    return found + [Case(part=Part.VERIFIER, vocab=vocab, depth=deepest, batch=batch) for vocab, batch in sizes]


def contenders(part: Part) -> list[Contender]:
    """Who takes part in the cases of a part."""
    return [one for one in CONTENDERS if one.part is part]


def repetitions(mode: Mode) -> int:
    """Samples of each contestant of a case."""
    return QUICK_REPETITIONS if mode is Mode.QUICK else REPETITIONS


def groups(mode: Mode) -> list[tuple[str, int]]:
    """Id and rows of every comparison of our bits with the reference, in order."""
    return [(f"{case.id}/{when}", case.checked) for case in cases(mode) for when in (BEFORE, AFTER)]


def plain(mode: Mode) -> dict[str, Any]:
    """Receipt form."""
    return {
        "cases": [case.id for case in cases(mode)],
        "mode": mode.value,
        "repetitions": repetitions(mode),
        "rounds": ROUNDS,
        "warmups": WARMUPS,
    }
