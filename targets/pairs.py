"""Small pairs of a target and a proposal, for samplers that take the proposal's law from the harness.

Rows are integers over 2^24, so that probabilities are exact in FP32; vocabularies are small, so that a campaign of a
million requests resolves a total variation of half a percent. Each pair is built from a hash of its own name.
"""

import hashlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from pp3.targets.target import ONE

Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """A target and the proposal that drafts for it. ValueError unless every row sums to 2^24."""

    name: str
    why: str
    weights: Weights  # [rows, vocab], the target
    draft_weights: Weights  # [rows, vocab], the proposal
    row_of: npt.NDArray[np.int64]  # [depth + 1, contexts]
    context_of: npt.NDArray[np.int64]  # [vocab]
    patterns: tuple[str, ...] = ("none",)
    temperatures: tuple[float, ...] = (1.0,)  # of requests that start in context 0, 1, ..., dealt in turn; 0: greedy
    joint: bool = False  # small enough for the law of whole rounds

    def __post_init__(self) -> None:
        for which, rows in (("target", self.weights), ("proposal", self.draft_weights)):
            if (rows < 0).any() or (rows.sum(axis=1) != ONE).any():
                raise ValueError(f"{self.name}: a {which} row does not sum to {ONE} (2^24)")
        if self.starts > 1 and self.row_of.shape[1] != self.starts:
            raise ValueError(f"{self.name}: {self.starts} temperatures need as many contexts, which never mix")
        for part in (self.weights, self.draft_weights):
            part.flags.writeable = False

    @property
    def depth(self) -> int:
        """Drafts a round."""
        return len(self.row_of) - 1

    @property
    def vocab(self) -> int:
        """Number of tokens."""
        return len(self.context_of)

    @property
    def starts(self) -> int:
        """In how many contexts requests start."""
        return len(self.temperatures)

    @property
    def sampled(self) -> bool:
        """Whether any request has a temperature above 0."""
        return max(self.temperatures) > 0

    @property
    def heats(self) -> npt.NDArray[np.float32]:
        """Temperature of the requests that meet each row, [rows]."""
        found = np.full(len(self.weights), self.temperatures[0], np.float32)
        for start, temperature in enumerate(self.temperatures[1:], 1):
            found[self.row_of[:, start]] = temperature
        return found

    def digest(self) -> str:
        """SHA-256 over everything that defines the laws."""
        digest = hashlib.sha256(f"{','.join(self.patterns)}/{self.temperatures!r}/{self.weights.shape}".encode())
        for part in (self.weights, self.draft_weights, self.row_of, self.context_of):
            digest.update(np.ascontiguousarray(part, "<i8").tobytes())
        return digest.hexdigest()


WHY = {
    "near": "the proposal is a tilt of the target: most drafts are kept, the bonus is met often",
    "far": "target and proposal differ by half their mass, and each has tokens that the other lacks",
    "equal": "target and proposal are the same: nothing is rejected, the residual is empty",
    "void": "drafts of -1 at the first, a middle, the last and every position: the full target, then stop",
    "context": "Markov: each row depends on the token before it, so a row judged in the wrong context shows",
    "mixed": "requests of three temperatures and three sets of tokens in a batch: what is read from another row shows",
    "peaked": "one token has most of the mass: drafts that count as point masses are often kept as well",
    "shared-noise": "the residual lies on a likely and an unlikely draft: draft noise reused there shows",
    "whole": "four tokens, two drafts: the joint law of whole rounds, which position by position nobody sees",
    "greedy": "temperature 0: every token is the argmax, whatever was drafted",
    "mixed-greedy": "requests of temperature 0 and above in one batch, with tokens of their own",
    "ragged": "requests with 4, 3, 1 and no drafts in one batch: each ends with the bonus of its own last position",
}
NAMES = tuple(WHY)
CONTEXTS = 3
TEMPERATURES = {
    "near": (0.7,),
    "context": (0.7,),
    "mixed": (0.7, 1.0, 1.5),
    "greedy": (0.0,),
    "mixed-greedy": (0.0, 0.7),
}
DEALT = {"void": ("first", "middle", "last", "every"), "ragged": ("none", "short-3", "short-1", "short-0")}
SIZES = {"whole": (4, 2), "context": (12, 4), "mixed": (24, 4), "mixed-greedy": (24, 4)}  # vocabulary and depth


@cache
def build(name: str) -> Pair:
    """The pair of this name. KeyError for a name not in NAMES."""
    why = WHY[name]
    if name == "shared-noise":
        target = np.array([[16, _parts(0.615), 0], [_parts(0.2), _parts(0.3), 0]], np.int64)
        draft = np.array([[_parts(0.50), _parts(0.49), 0]] * 2, np.int64)
        for rows in (target, draft):
            rows[:, 2] = ONE - rows.sum(axis=1)
        return _pair(name, why, target, draft)
    vocab, depth = SIZES.get(name, (20, 4))
    starts = len(TEMPERATURES.get(name, (1.0,)))
    count = CONTEXTS if name == "context" else (depth + 1) * starts
    target = np.stack([_law(f"{name}/{row}/target", vocab) for row in range(count)])
    if name == "far":
        draft = np.stack([_law(f"{name}/{row}/draft", vocab) for row in range(count)])
        target, draft = _without(target, slice(0, 2)), _without(draft, slice(vocab - 3, vocab))
    elif name == "equal":
        draft = target.copy()
    else:
        strength = 18 if starts > 1 or name == "ragged" else 5 if name in ("whole", "void") else 3
        tilt = np.stack([_integers(f"{name}/{row}/tilt", vocab, 8, 8 + strength) for row in range(count)])
        if starts > 1:  # rows of start s hold the tokens s, s + starts, ...: contexts never mix
            tilt *= np.arange(vocab) % starts == np.arange(count)[:, None] % starts
            target = np.stack([_apportion(row) for row in target * (tilt > 0)])
        draft = np.stack([_apportion(row * factor) for row, factor in zip(target, tilt, strict=True)])
    if name == "peaked":
        draft, target = _onto(draft, target.argmax(axis=1), 5), _onto(target, target.argmax(axis=1), 3)
    if not min(TEMPERATURES.get(name, (1.0,))):
        best, missed = target.argmax(axis=1), (depth - 1) * starts
        best[missed] = np.argsort(target[missed])[-3]  # greedy rounds go on until the last draft
        draft = _onto(draft, best, 1)
    return _pair(name, why, target, draft)


def _pair(name: str, why: str, target: Weights, draft: Weights) -> Pair:
    rows, vocab = target.shape
    temperatures = TEMPERATURES.get(name, (1.0,))
    starts = len(temperatures)
    contexts = CONTEXTS if name == "context" else starts
    return Pair(
        name=name,
        why=why,
        weights=target,
        draft_weights=draft,
        row_of=np.tile(np.arange(rows), (5, 1)) if name == "context" else np.arange(rows).reshape(-1, starts),
        context_of=np.arange(vocab) % contexts,
        patterns=DEALT.get(name, ("none",)),
        temperatures=temperatures,
        joint=name in ("whole", "shared-noise"),
    )


def _onto(rows: Weights, tokens: npt.NDArray[np.int64], parts: int) -> Weights:
    """Rows with `parts` of parts + 1 of their mass moved onto one token each."""
    moved: Weights = rows // (parts + 1)
    moved[np.arange(len(rows)), tokens] += ONE - moved.sum(axis=1)
    return moved


def _law(label: str, vocab: int) -> Weights:
    """A row that no token dominates: shares of 1 to 8."""
    return _apportion(_integers(label, vocab, 8, 65))


def _without(rows: Weights, tokens: slice) -> Weights:
    rows = rows.copy()
    rows[:, tokens] = 0
    return np.stack([_apportion(row) for row in rows])


def _apportion(shares: Weights) -> Weights:
    """Integers in proportion to shares [vocab] that sum to 2^24; the rest goes to the largest."""
    weights: Weights = shares * ONE // int(shares.sum())
    weights[int(shares.argmax())] += ONE - int(weights.sum())
    return weights


def _parts(probability: float) -> int:
    return round(probability * ONE)


def _integers(label: str, count: int, low: int, high: int) -> Weights:
    """`count` integers in [low, high) from SHAKE-128 of the label."""
    stream = hashlib.shake_128(f"pp3/pair/{label}".encode()).digest(4 * count)
    return low + np.frombuffer(stream, "<u4").astype(np.int64) % (high - low)
