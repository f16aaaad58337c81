"""An engine of our own in NumPy: continuous batches, speculation, filters, seeds, stops. It samples the exact law.

Every draw is a function of the request's seed (or of the engine's and the request's number), its place and its purpose,
so it depends neither on the slot nor on the company. Planted faults override one of its steps (planted.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from pp3.harness.engine.contract import Answer, Ask, Facts, Finish
from pp3.harness.engine.law import Law, Setting, law_of

SUPPORTS = frozenset(
    [
        "seed",
        "top_k",
        "top_p",
        "min_p",
        "logit_bias",
        "repetition_penalty",
        "logprobs",
        "stop",
        "abort_after",
        "steps",
        "speculate",
    ]
)
ARRANGEMENTS = frozenset({"alone", "batch", "order", "slot"})
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Purpose(IntEnum):
    """What a uniform number is for."""

    DRAFT = 1
    COIN = 2
    DRAW = 3


class Path(IntEnum):
    """Where a law is read."""

    PLAIN = 0  # a token without drafts
    DRAFT = 1  # the proposal
    VERIFY = 2  # the target at a draft
    BONUS = 3  # the target after all drafts


@dataclass(slots=True, eq=False)
class Row:
    """A request in a slot."""

    ask: Ask
    slot: int
    key: int
    setting: Setting
    tokens: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The token that the next one follows."""
        return self.tokens[-1] if self.tokens else self.ask.prompt[-1]


class ReferenceEngine:
    """See the contract. `draft` [classes, vocab] are logits of the proposal; without them nothing is speculated."""

    def __init__(
        self, logits: Law, class_of: Integers, end: int, draft: Law | None = None, depth: int = 3, seed: int = 0
    ) -> None:
        self.logits, self.draft, self.class_of, self.end = logits, draft, class_of, end
        self.depth, self.seed = depth, seed
        self.waves = 0
        self._laws: dict[tuple[bool, str], Law] = {}
        self.facts = Facts(
            name="pp3-reference",
            version="1",
            speculative=draft is not None,
            supports=SUPPORTS if draft is not None else SUPPORTS - {"speculate", "steps"},
            vocab=logits.shape[1],
            settings={"dtype": "float64", "depth": str(depth if draft is not None else 0)},
            stop_emitted=True,
            replays=ARRANGEMENTS,
        )

    def answers(self, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
        """See the contract: a request takes the slot that becomes free first."""
        waiting, rows = list(asks)[::-1], dict[int, Row]()
        while waiting or rows:
            for slot in range(concurrency):
                if slot not in rows and waiting:
                    ask = waiting.pop()
                    rows[slot] = Row(ask, slot, self.key_of(ask, slot), setting_of(ask))
            active = [rows[slot] for slot in sorted(rows)]
            for row, emitted in zip(active, self.step(active), strict=True):
                answer = self._take(row, emitted)
                if answer is not None:
                    del rows[row.slot]
                    yield answer
            self.waves += 1

    def close(self) -> None:
        """See the contract."""

    def reseed(self, seed: int) -> None:
        """What requests without a seed draw from."""
        self.seed = seed

    def key_of(self, ask: Ask, slot: int) -> int:
        """What all draws of a request follow from."""
        return ask.seed if ask.seed is not None else (self.seed << 32) + ask.number + (1 << 63)

    def ends_of(self, ask: Ask) -> frozenset[int]:
        """Tokens that end an answer."""
        return frozenset(ask.stop) | (frozenset() if ask.ignore_eos else {self.end})

    def law(self, row: Row, path: Path, before: int, pending: Sequence[int]) -> Floats:
        """Law [vocab] after a token; `pending` are drafts that count as seen."""
        setting = row.setting
        table = self.draft if path is Path.DRAFT else self.logits
        assert table is not None
        number = int(self.class_of[before])
        if setting.repetition_penalty is not None:
            seen = np.zeros((1, self.logits.shape[1]), bool)
            seen[0, [*row.ask.prompt, *row.tokens, *pending]] = True
            return point(law_of(table[number : number + 1], setting, seen)[0], setting)
        known = (path is Path.DRAFT, repr(setting))
        if known not in self._laws:
            laws = law_of(table, setting)
            self._laws[known] = np.stack([point(one, setting) for one in laws])
        found: Floats = self._laws[known][number]
        return found

    def step(self, rows: Sequence[Row]) -> list[list[int]]:
        """Tokens that each row emits in one step."""
        return [
            self.speculate(row) if self.draft is not None and row.ask.speculate else self.plain(row) for row in rows
        ]

    def plain(self, row: Row) -> list[int]:
        """One token."""
        place = len(row.tokens)
        return [pick(self.law(row, Path.PLAIN, row.last, ()), self.uniform(row, place, Purpose.DRAW))]

    def speculate(self, row: Row) -> list[int]:
        """Drafts that are kept, and a token of the residual or of the target."""
        place, drafts, laws = len(row.tokens), list[int](), list[Floats]()
        for j in range(self.depth):
            laws.append(self.law(row, Path.DRAFT, drafts[-1] if drafts else row.last, drafts))
            drafts.append(pick(laws[-1], self.uniform(row, place + j, Purpose.DRAFT)))
        laws = self.ratio_laws(row, laws)
        for j, draft in enumerate(drafts):
            target = self.law(row, Path.VERIFY, drafts[j - 1] if j else row.last, drafts[:j])
            if self.uniform(row, place + j, Purpose.COIN) * laws[j][draft] < target[draft]:
                continue
            residual = self.residual(target, laws[j])
            return [*drafts[:j], pick(residual, self.uniform(row, place + j, Purpose.DRAW))]
        bonus = self.law(row, Path.BONUS, drafts[-1], drafts)
        return [*drafts, pick(bonus, self.uniform(row, place + self.depth, Purpose.DRAW))]

    def ratio_laws(self, row: Row, laws: list[Floats]) -> list[Floats]:
        """What the drafts are said to have been drawn from."""
        return laws

    def residual(self, target: Floats, draft: Floats) -> Floats:
        """What replaces a rejected draft, in proportion."""
        return np.maximum(target - draft, 0)

    def uniform(self, row: Row, place: int, purpose: Purpose) -> float:
        """A number in [0, 1) of a request, a place and a purpose (SplitMix64's finaliser, twice)."""
        mask = (1 << 64) - 1
        word = (row.key * 0x9E3779B97F4A7C15 + (place * 4 + purpose) * 0xD1B54A32D192ED03 + self.seed) & mask
        for _ in range(2):
            word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
            word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
            word ^= word >> 31
        return (word >> 11) / (1 << 53)

    def _take(self, row: Row, emitted: list[int]) -> Answer | None:
        """Keep what may be kept of a step; the answer if the request has ended."""
        ask, ends, finish = row.ask, self.ends_of(row.ask), None
        for number, token in enumerate(emitted):
            row.tokens.append(token)
            if token in ends:
                finish = Finish.STOP
            elif len(row.tokens) == ask.length:
                finish = Finish.LENGTH
            if finish is not None:
                emitted = emitted[: number + 1]
                break
        row.steps.append(len(emitted))
        if finish is None and ask.abort_after is not None and len(row.tokens) >= ask.abort_after:
            finish = Finish.ABORTED
        if finish is None:
            return None
        return Answer(
            number=ask.number,
            tokens=tuple(row.tokens),
            finish=finish,
            logprobs=self.logprobs_of(row) if ask.logprobs is not None else None,
            steps=tuple(row.steps) if self.draft is not None and ask.speculate else None,
        )

    def logprobs_of(self, row: Row) -> tuple[float, ...]:
        """Of each emitted token, at temperature 1 and without filters."""
        key = (False, "raw")
        if key not in self._laws:
            self._laws[key] = law_of(self.logits, Setting())
        before = [row.ask.prompt[-1], *row.tokens[:-1]]
        return tuple(np.log(self._laws[key][self.class_of[before], row.tokens]).tolist())


def setting_of(ask: Ask) -> Setting:
    """What of a request changes its law."""
    return Setting(
        temperature=ask.temperature,
        top_k=ask.top_k,
        top_p=ask.top_p,
        min_p=ask.min_p,
        logit_bias=dict(ask.logit_bias),
        repetition_penalty=ask.repetition_penalty,
    )


def point(law: Floats, setting: Setting) -> Floats:
    """At temperature 0 the lowest of the likeliest tokens; else the law itself."""
    if setting.temperature > 0:
        return law
    best = np.zeros_like(law)
    best[int(law.argmax())] = 1
    return best


def pick(law: Floats, uniform: float) -> int:
    """The first token whose cumulative mass exceeds that share of all: none of mass 0."""
    sums = np.cumsum(law)
    return int(np.searchsorted(sums, uniform * sums[-1], side="right"))
