"""Count what came back for the requests of a piece. Only integers leave it, and they add up over pieces."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.engine.cells import FORBIDDEN, PARTS, PLACES, Cell, Look, part_of
from pp3.harness.engine.conditions import PENALISED, Condition, Kind
from pp3.harness.engine.contract import Answer, Ask, Finish
from pp3.harness.engine.law import Law, Setting, law_of, log_error
from pp3.harness.engine.ranks import equal_ranks, favoured, penalty_ranks, uniform_ranks
from pp3.harness.errors import CampaignError
from pp3.targets.chains import Chain

Integers = npt.NDArray[np.int64]
LENGTH = "length"
BAD_TOKEN, UNASKED, MISSING = "token-outside-vocabulary", "answer-not-asked-for", "request-not-answered"
BREACHES = (BAD_TOKEN, UNASKED, MISSING)
TOLD_TOKENS = "logprobs/tolerance"
TIES = "greedy/ties"  # answers that differ where two tokens are equally likely: allowed, and said


@dataclass(slots=True, kw_only=True)
class Found:
    """What pieces counted."""

    counts: dict[str, list[int]] = field(default_factory=dict)  # of each cell
    exact: dict[str, list[int]] = field(default_factory=dict)  # of each exact check: compared, wrong
    breaches: dict[str, int] = field(default_factory=dict)  # of the contract
    replaced: dict[str, int] = field(default_factory=dict)  # attempts, by LOST and REFUSED
    tokens: int = 0

    def add(self, other: "Found") -> None:
        """Add up."""
        for mine, theirs in ((self.counts, other.counts), (self.exact, other.exact)):
            for name, values in theirs.items():
                before = mine.get(name, [0] * len(values))
                mine[name] = [a + b for a, b in zip(before, values, strict=True)]
        for mine_of, theirs_of in ((self.breaches, other.breaches), (self.replaced, other.replaced)):
            for name, count in theirs_of.items():
                mine_of[name] = mine_of.get(name, 0) + count
        self.tokens += other.tokens

    def note(self, name: str, compared: int, wrong: int) -> None:
        """Add to an exact check."""
        before = self.exact.get(name, [0, 0])
        self.exact[name] = [before[0] + compared, before[1] + wrong]

    def plain(self) -> dict[str, Any]:
        """As a part is kept."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """Requests of a condition with what was answered, in the order of their numbers."""

    asks: Sequence[Ask]
    answers: Sequence[Answer]


def matched(asks: Sequence[Ask], answers: Sequence[Answer], vocab: int, found: Found) -> Told:
    """Answers beside their requests; breaches of the contract are counted and left out."""
    by_number: dict[int, Answer] = {}
    known = {ask.number for ask in asks}
    for answer in answers:
        if answer.number not in known or answer.number in by_number:
            found.breaches[UNASKED] = found.breaches.get(UNASKED, 0) + 1
            continue
        by_number[answer.number] = answer
        found.tokens += len(answer.tokens)
    kept = []
    for ask in asks:
        got = by_number.get(ask.number)
        if got is None:
            found.breaches[MISSING] = found.breaches.get(MISSING, 0) + 1
        elif any(not 0 <= token < vocab for token in got.tokens):
            found.breaches[BAD_TOKEN] = found.breaches.get(BAD_TOKEN, 0) + 1
        else:
            kept.append((ask, got))
    return Told(asks=[ask for ask, _ in kept], answers=[got for _, got in kept])


class Counter:
    """Counts pieces of one condition."""

    def __init__(
        self, chain: Chain, logits: Law, draft: Law, condition: Condition, cells: Sequence[Cell], emitted: bool
    ) -> None:
        self.chain, self.logits, self.condition, self.cells, self.emitted = chain, logits, condition, cells, emitted
        self.laws = [law_of(logits, setting) for setting in condition.settings]
        self.drafts = [law_of(draft, setting) for setting in condition.settings]

    def count(self, told: Told, start: int, concurrency: int, rng: np.random.Generator, found: Found) -> None:
        """Count a piece whose first request, which has the first setting, has the number `start`."""
        match self.condition.kind:
            case Kind.GREEDY:
                self._greedy(told, found)
            case Kind.LOGPROB:
                self._logprobs(told, found)
            case Kind.END | Kind.PENALTY_END | Kind.STOP:
                told = self._ends(told, found)
                self._laws(told, start, concurrency, rng, found)
            case _:
                self._lengths(told, found)
                self._laws(told, start, concurrency, rng, found)

    def _lengths(self, told: Told, found: Found) -> None:
        """An answer that nothing stops has the length that was asked for, or hung up after at least so much."""
        wrong = 0
        for ask, answer in zip(told.asks, told.answers, strict=True):
            if ask.abort_after is not None and answer.finish is Finish.ABORTED:
                wrong += not min(ask.abort_after, ask.length) <= len(answer.tokens) <= ask.length
            else:
                wrong += answer.finish is not Finish.LENGTH or len(answer.tokens) != ask.length
        found.note(LENGTH, len(told.asks), wrong)

    def _ends(self, told: Told, found: Found) -> Told:
        """Nothing after the first end, and it is said why an answer ended. The answers, each up to its first end."""
        after = finish = 0
        cut = []
        for ask, answer in zip(told.asks, told.answers, strict=True):
            ends = {*ask.stop, *(() if ask.ignore_eos else (self.chain.end,))}
            place = next((at for at, token in enumerate(answer.tokens) if token in ends), -1)
            tokens = answer.tokens[: place + 1] if place >= 0 else answer.tokens
            stopped = answer.finish is Finish.STOP
            after += place >= 0 and (len(answer.tokens) > place + 1 or not self.emitted)
            wanted = place >= 0 if self.emitted else stopped
            finish += stopped != wanted or (not stopped and len(answer.tokens) != ask.length)
            if not self.emitted and stopped and len(ends) == 1:
                tokens = (*tokens, *ends)
            cut.append(Answer(number=answer.number, tokens=tokens, finish=answer.finish, steps=answer.steps))
        found.note(f"{self.condition.name}/after", len(told.asks), after)
        found.note(f"{self.condition.name}/finish", len(told.asks), finish)
        return Told(asks=told.asks, answers=cut)

    def _greedy(self, told: Told, found: Found) -> None:
        """Every token is one of the likeliest after the one before it."""
        before, tokens, _ = flat(told)
        best = self.laws[0] > 0
        found.note(
            f"{self.condition.name}/argmax", len(tokens), int((~best[self.chain.class_of[before], tokens]).sum())
        )
        self._lengths(told, found)

    def _logprobs(self, told: Told, found: Found) -> None:
        """What is said of each token's probability, at temperature 1 and without filters."""
        before, tokens, _ = flat(told)
        said = np.array([value for answer in told.answers for value in answer.logprobs or ()])
        self._lengths(told, found)
        if len(said) != len(tokens):
            found.note(TOLD_TOKENS, len(tokens), abs(len(tokens) - len(said)))
            return
        with np.errstate(divide="ignore", invalid="ignore"):  # of a forbidden token; no difference to it is within
            known = np.log(law_of(self.logits, Setting())[self.chain.class_of[before], tokens])
            within = np.abs(said - known) <= log_error(self.logits)
        found.note(TOLD_TOKENS, len(tokens), int((~within).sum()))

    def _laws(self, told: Told, start: int, concurrency: int, rng: np.random.Generator, found: Found) -> None:
        """The cells of the condition."""
        several = len(self.condition.settings)
        chosen = [(ask.number - start) % several for ask in told.asks]
        for number in range(several):
            mine = [at for at, setting in enumerate(chosen) if setting == number]
            part = Told(asks=[told.asks[at] for at in mine], answers=[told.answers[at] for at in mine])
            cells = [cell for cell in self.cells if cell.setting == number]
            self._one(part, cells, number, start, concurrency, rng, found)

    def _one(
        self,
        told: Told,
        cells: Sequence[Cell],
        number: int,
        start: int,
        concurrency: int,
        rng: np.random.Generator,
        found: Found,
    ) -> None:
        before, tokens, places = flat(told)
        classes, law = self.chain.class_of[before], self.laws[number]
        random = rng.random(len(tokens))
        if self.condition.kind in PENALISED:
            ranks = self._penalty_ranks(told, number, random)
        else:
            ranks = uniform_ranks(law, law, classes, tokens, random)
        steps = steps_of(told)
        for cell in cells:
            match cell.look:
                case Look.TOKEN:
                    assert cell.table is not None
                    found_in = cell.table[classes, tokens]
                case Look.PAIR:
                    found_in = self._pairs(cell, told)
                case Look.RANK:
                    found_in = bucketed(ranks, cell)
                case Look.TILT:
                    order = favoured(law, self.drafts[number])
                    found_in = bucketed(uniform_ranks(law, order, classes, tokens, random), cell)
                case Look.POSITION:
                    found_in = bucketed(ranks[places == cell.number], cell)
                case Look.PLACE:
                    found_in = bucketed(ranks[steps == cell.number], cell)
                case Look.NEIGHBOUR:
                    found_in = self._matches(cell, told, start, 1, law, rng)
                case Look.SLOT:
                    found_in = self._matches(cell, told, start, concurrency, law, rng)
            found.add(Found(counts={cell.id: vector(found_in, cell)}))

    def _penalty_ranks(self, told: Told, number: int, random: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Of every token of answers of any lengths, in the order of `flat`."""
        sizes = np.array([len(answer.tokens) for answer in told.answers], np.int64)
        if not sizes.sum():
            return np.zeros(0)
        there = np.arange(sizes.max()) < sizes[:, None]
        tokens, numbers = np.zeros(there.shape, np.int64), np.zeros(there.shape)
        tokens[there] = [token for answer in told.answers for token in answer.tokens]
        numbers[there] = random
        prompts = [ask.prompt for ask in told.asks]
        return penalty_ranks(self.logits, self.condition.settings[number], self.chain, prompts, tokens, numbers)[there]

    def _pairs(self, cell: Cell, told: Told) -> Integers:
        """Disjoint pairs of every answer."""
        assert cell.table is not None
        before: list[int] = []
        first: list[int] = []
        second: list[int] = []
        for ask, answer in zip(told.asks, told.answers, strict=True):
            tokens = answer.tokens[: len(answer.tokens) // 2 * 2]
            before += [ask.prompt[-1], *tokens[1:-1:2]] if tokens else []
            first += tokens[::2]
            second += tokens[1::2]
        vocab = self.chain.vocab
        if not first:
            return np.zeros(0, np.int64)
        code = part_of(np.array(first), vocab) * PARTS + part_of(np.array(second), vocab)
        groups: Integers = cell.table[self.chain.class_of[np.array(before)], code]
        return groups

    def _matches(self, cell: Cell, told: Told, start: int, lag: int, law: Law, rng: np.random.Generator) -> Integers:
        """Equal tokens of requests `lag` apart, disjoint pairs, by place."""
        rows = {ask.number - start: at for at, ask in enumerate(told.asks)}
        equal, chances = [], []
        for number, at in rows.items():
            other = rows.get(number + lag)
            if number // lag % 2 or other is None:
                continue
            one, two = told.answers[at].tokens, told.answers[other].tokens
            size = min(len(one), len(two))
            mine, theirs = np.array(one[:size], np.int64), np.array(two[:size], np.int64)
            before = np.array([told.asks[at].prompt[-1], *one[: size - 1]], np.int64)[:size]
            others = np.array([told.asks[other].prompt[-1], *two[: size - 1]], np.int64)[:size]
            equal.append(mine == theirs)
            chances.append((self.chain.class_of[before], self.chain.class_of[others]))
        if not equal:
            return np.zeros(0, np.int64)
        table = law @ law.T
        chance = np.concatenate([table[a, b] for a, b in chances])
        ranks = equal_ranks(chance, np.concatenate(equal), rng.random(len(chance)))
        different: Integers = (ranks >= cell.probabilities[0]).astype(np.int64)
        return different


def flat(told: Told) -> tuple[Integers, Integers, Integers]:
    """Every token of all answers: the one before it, itself, its place."""
    before: list[int] = []
    tokens: list[int] = []
    places: list[int] = []
    for ask, answer in zip(told.asks, told.answers, strict=True):
        if answer.tokens:
            before += (ask.prompt[-1], *answer.tokens[:-1])
            tokens += answer.tokens
            places += range(len(answer.tokens))
    return np.array(before, np.int64), np.array(tokens, np.int64), np.array(places, np.int64)


def steps_of(told: Told) -> Integers:
    """Place of every token in its step, PLACES - 1 for all from there on; -1 where the engine does not tell."""
    found: list[int] = []
    for answer in told.answers:
        mine = [min(place, PLACES - 1) for size in answer.steps or () for place in range(size)]
        found += mine if len(mine) == len(answer.tokens) else [-1] * len(answer.tokens)
    return np.array(found, np.int64)


def bucketed(ranks: npt.NDArray[np.float64], cell: Cell) -> Integers:
    """Buckets of ranks; FORBIDDEN for what the law forbids."""
    many = len(cell.probabilities)
    return np.where(ranks < 0, FORBIDDEN, np.floor(ranks * max(many, 1)) if many else -2).astype(np.int64)


def vector(found: npt.NDArray[Any], cell: Cell) -> list[int]:
    """Counts of groups, of what decides nothing, of what is forbidden."""
    counts = np.bincount(found.astype(np.int64) + 2, minlength=cell.size)
    if len(counts) != cell.size:
        raise CampaignError(f"{cell.id}: {len(counts)} groups were counted, the cell has {cell.size}")
    return [*counts[2:].tolist(), int(counts[0]), int(counts[1])]
