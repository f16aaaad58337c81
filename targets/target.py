"""A target: the exact law a sampler is asked to reproduce, and the logits its proposal drafts from.

A row holds one conditional law. Which row judges position j after a previous token is row_of[j, context_of[token]];
position 0 has context 0. Weights are integers that sum to 2^24, so probabilities are exact in FP32.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pp3.kernels.reference import allocate

ONE = 1 << 24
POSITIONS = 6  # five drafts and the bonus
VOIDS = ("none", "first", "middle", "last", "every")  # all drafts are there; which are invalidated
SHORT = tuple(f"short-{count}" for count in range(POSITIONS - 1))  # so many drafts, none invalidated
PATTERNS = (*VOIDS, *SHORT)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """Raises ValueError unless every row is a law over the vocabulary and every index is in range."""

    name: str
    why: str
    weights: npt.NDArray[np.int64]  # [rows, vocab]
    draft_logits: npt.NDArray[np.float32]  # [rows, vocab], exact in BF16
    row_of: npt.NDArray[np.int64]  # [positions, contexts]
    context_of: npt.NDArray[np.int64]  # [vocab]
    patterns: tuple[str, ...] = ("none",)  # which drafts are invalidated or absent, dealt to requests in turn

    def __post_init__(self) -> None:
        rows, vocab = self.weights.shape
        for row, total in enumerate(self.weights.sum(axis=1).tolist()):
            if total != ONE or (self.weights[row] < 0).any():
                raise ValueError(
                    f"target {self.name}: weights of row {row} sum to {total}; want {ONE} (2^24), none negative"
                )
        if self.draft_logits.shape != (rows, vocab):
            raise ValueError(f"target {self.name}: draft_logits are {self.draft_logits.shape}, weights {(rows, vocab)}")
        if not np.isfinite(self.draft_logits.max(axis=1)).all():  # NaN, +inf, or nothing above -inf
            raise ValueError(f"target {self.name}: a row of draft_logits has NaN, +inf or no finite value")
        low = (self.draft_logits.view(np.uint32) & 0xFFFF) != 0
        if low.any():
            raise ValueError(
                f"target {self.name}: draft logit {float(self.draft_logits[low][0])!r} is not exact in BF16"
            )
        if self.row_of.shape[0] != POSITIONS or not ((self.row_of >= 0) & (self.row_of < rows)).all():
            raise ValueError(f"target {self.name}: row_of must be [{POSITIONS}, contexts] with rows below {rows}")
        contexts = self.row_of.shape[1]
        if self.context_of.shape != (vocab,) or not ((self.context_of >= 0) & (self.context_of < contexts)).all():
            raise ValueError(f"target {self.name}: contexts must give each of {vocab} tokens a number below {contexts}")
        unknown = sorted(set(self.patterns) - set(PATTERNS))
        if len(set(self.patterns)) < len(self.patterns):
            raise ValueError(f"target {self.name}: patterns {list(self.patterns)} must be distinct")
        if unknown or not self.patterns:
            raise ValueError(f"target {self.name}: pattern {unknown} is unknown; choose from {', '.join(PATTERNS)}")

    total = ONE  # what every row sums to
    starts = 1  # every request starts in context 0
    block = False  # drafts are verified one by one
    compares = False  # by their own law
    labels = ()
    lump = None

    @property
    def vocab(self) -> int:
        """Number of tokens."""
        return int(self.weights.shape[1])

    @property
    def contexts(self) -> int:
        """Number of classes of previous token."""
        return int(self.row_of.shape[1])

    def proposal_weights(self) -> npt.NDArray[np.int64]:
        """The tickets that our proposal gives each row, [rows, vocab] over 2^24."""
        supports = allocate(self.draft_logits)
        dense = np.zeros_like(self.weights)
        np.put_along_axis(dense, supports.ids.astype(np.int64), supports.tickets.astype(np.int64), axis=1)
        return dense

    def kept_weights(self) -> npt.NDArray[np.int64]:
        """Standard rejection: min(P, Q), [rows, vocab] over 2^24."""
        return np.minimum(self.weights, self.proposal_weights())

    def void_weights(self) -> npt.NDArray[np.int64]:
        """An invalidated draft draws from the full target."""
        return self.weights

    def digest(self) -> str:
        """SHA-256 over everything that defines the law and the drafts; the reason and the name are labels."""
        parts = [
            np.array(self.weights.shape, "<i8"),
            self.weights.astype("<i8"),
            self.draft_logits.astype("<f4"),
            self.row_of.astype("<i8"),
            self.context_of.astype("<i8"),
        ]
        digest = hashlib.sha256("\n".join(self.patterns).encode())
        for part in parts:
            digest.update(part.tobytes())
        return digest.hexdigest()


def drafts_of(pattern: str, depth: int) -> int:
    """How many of `depth` drafts a request of this pattern brings."""
    return min(int(pattern.removeprefix("short-")), depth) if pattern in SHORT else depth


def invalidated(pattern: str, depth: int) -> tuple[bool, ...]:
    """Which of `depth` drafts a pattern turns into -1."""
    if pattern in SHORT:
        return (False,) * depth
    where = {"none": set[int](), "first": {0}, "middle": {depth // 2}, "last": {depth - 1}, "every": set(range(depth))}
    return tuple(j in where[pattern] for j in range(depth))
