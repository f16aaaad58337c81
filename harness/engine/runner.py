"""A small engine of our own: continuous batches of slots around the reference proposal and verifier.

Each draw is a function of its request's seed, its step and its place: an answer depends on neither slot nor company.
Every step that a real runner can get wrong is a method of its own, which runner_faults.py overrides.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pp3.harness.engine.contract import Ask, Finish
from pp3.harness.engine.model import Model, Rule, law
from pp3.harness.engine.rows import RowTable
from pp3.kernels.addressing import Purpose, request_key
from pp3.kernels.reference import OK, SUPPORT, TAU, propose_rows, verify_rows
from pp3.targets.target import ONE

SESSION = b"pp3 own engine  "  # 16 bytes; the seed alone tells requests apart
I32 = npt.NDArray[np.int32]
U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What one step gives one request."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish | None  # None: there is more to come


@dataclass(slots=True, eq=False)
class Request:
    """A request that waits or runs."""

    ask: Ask
    arrival: int
    seed: int  # signed 64 bits
    ends: frozenset[int]
    deliver: Callable[[Emitted], None]
    rule: Rule
    tokens: list[int] = field(default_factory=list)
    steps: int = 0
    gone: bool = False  # its caller hung up
    proposal_key: int = 0
    verify_key: int = 0

    @property
    def last(self) -> int:
        """The token that the next one follows."""
        return self.tokens[-1] if self.tokens else self.ask.prompt[-1]


class Runner:
    """At most `slots` requests in flight. depth 0: no speculation."""

    def __init__(self, model: Model, *, slots: int, depth: int, seed: int = 0) -> None:
        self.model, self.depth, self.seed = model, depth, seed
        self.slots: list[Request | None] = [None] * slots
        self.waiting: deque[Request] = deque()
        self.arrived = 0
        with np.errstate(divide="ignore"):
            self.logs = np.log(model.weights / ONE)
        self.table = RowTable(model.vocab, slots * (max(depth, 1) + 1))

    def submit(self, ask: Ask, deliver: Callable[[Emitted], None]) -> Request:
        """Queue a request; `deliver` is called after each step that gives it tokens."""
        ends = frozenset(ask.stop)
        if not ask.ignore_eos and self.model.end is not None:
            ends |= {self.model.end}
        request = Request(
            ask=ask,
            arrival=self.arrived,
            seed=_signed(ask.seed) if ask.seed is not None else _drawn(self.seed, self.arrived),
            ends=ends,
            deliver=deliver,
            rule=Rule.of(ask),
        )
        request.proposal_key, request.verify_key = (
            request_key(SESSION, 0, 0, request.seed, purpose) for purpose in (Purpose.PROPOSAL, Purpose.VERIFY)
        )
        self.arrived += 1
        self.waiting.append(request)
        return request

    def step(self) -> bool:
        """One round of every running request; whether there was any."""
        self._admit()
        live = [request for request in self.slots if request is not None]
        if not live:
            return False
        depth = self.depth if any(self.speculates(request) for request in live) else 1
        drafts, support, tickets = self._draft(live, depth)
        read = self.readers(live)
        self.table.make_room()
        rows = np.array(
            [
                [self.row(one, drafts[i, :j].tolist(), drafted=j < depth) for j in range(depth + 1)]
                for i, one in enumerate(read)
            ]
        )
        sampled = np.array([request.rule.temperature > 0 for request in live])
        _, keys, rounds, positions = self._addresses(live)
        done = verify_rows(self.table.rows, rows, drafts, support, tickets, sampled, keys, rounds, positions)
        if (done.status != OK).any():
            raise RuntimeError(f"the verifier refused {int((done.status != OK).sum())} of {len(live)} requests")
        for request, tokens, count in zip(live, done.tokens.tolist(), done.num_sampled.tolist(), strict=True):
            self._emit(request, tokens[:count])
        return True

    def speculates(self, request: Request) -> bool:
        """Whether a request's next tokens are drafted."""
        return self.depth > 0 and request.ask.speculate

    def readers(self, live: Sequence[Request]) -> Sequence[Request]:
        """Whose context each row of the batch is computed from."""
        return live

    def row(self, request: Request, drafts: list[int], *, drafted: bool) -> int:
        """Where the law after the drafts is in the table; `drafted`: it judges a draft, else it is the bonus row."""
        rule = self.rule(request, drafted=drafted)
        valid = [draft for draft in drafts if draft >= 0]
        number = self.law_of(request, valid[-1] if valid else request.last)
        seen = (*request.ask.prompt, *request.tokens, *valid) if rule.penalty != 1 else ()
        key = (number, rule, frozenset(seen))
        found = self.table.find(key)
        return self.table.add(key, law(self.model.weights[number], rule, seen)) if found is None else found

    def law_of(self, request: Request, before: int) -> int:
        """The class whose law follows a token."""
        return int(self.model.class_of[before])

    def rule(self, request: Request, *, drafted: bool) -> Rule:
        """The parameters that a row is computed with."""
        return request.rule

    def drafter_class(self, request: Request, before: int) -> int:
        """The class that the drafter draws from; the verifier is told the tickets of the token's own."""
        return int(self.model.class_of[before])

    def keys(self, live: Sequence[Request]) -> tuple[list[int], list[int]]:
        """Proposal and verification key of each row."""
        return [request.proposal_key for request in live], [request.verify_key for request in live]

    def cut(self, request: Request, tokens: list[int]) -> tuple[list[int], Finish | None]:
        """What of a step's tokens is emitted: nothing past a stop token or the length."""
        finish = None
        tokens = tokens[: request.ask.length - len(request.tokens)]
        for place, token in enumerate(tokens):
            if token in request.ends:
                return tokens[: place + 1], Finish.STOP
        if len(request.tokens) + len(tokens) == request.ask.length:
            finish = Finish.LENGTH
        return tokens, finish

    def logprob(self, before: int, token: int, earlier: int) -> float:
        """Of a token after `before`, by the model's law; `earlier` is the token before that."""
        return float(self.logs[self.model.class_of[before], token])

    def admit(self, slot: int, request: Request) -> None:
        """Put a request into a free slot."""
        self.slots[slot] = request

    def release(self, slot: int) -> None:
        """Free the slot of a request whose caller hung up."""
        self.slots[slot] = None

    def _admit(self) -> None:
        for slot, running in enumerate(self.slots):
            if running is not None and running.gone:
                self.release(slot)
        for slot, running in enumerate(self.slots):
            while self.waiting and running is None:
                request = self.waiting.popleft()
                if not request.gone:
                    self.admit(slot, request)
                    break

    def _draft(self, live: Sequence[Request], depth: int) -> tuple[I32, I32, I32]:
        """Drafts [n, depth], -1 where a request speculates not; support and tickets [n, depth, 32]."""
        n = len(live)
        drafts = np.full((n, depth), -1, np.int32)
        support = np.tile(np.arange(SUPPORT, dtype=np.int32), (n, depth, 1))
        tickets = np.zeros((n, depth, SUPPORT), np.int32)
        who = [i for i, request in enumerate(live) if self.speculates(request)]
        if not who:
            return drafts, support, tickets
        proposal, _, rounds, positions = (part[who] for part in self._addresses(live))
        sampled = np.array([live[i].rule.temperature > 0 for i in who])
        last = [live[i].last for i in who]
        for j in range(depth):
            drawn_from = np.array([self.drafter_class(live[i], before) for i, before in zip(who, last, strict=True)])
            made = propose_rows(
                self.model.supports, drawn_from, sampled, proposal, rounds, positions + np.uint64(j), TAU
            )
            told = self.model.class_of[last]
            ids = np.where(sampled[:, None], self.model.supports.ids[told], made.ids)
            shares = np.where(sampled[:, None], self.model.supports.tickets[told], made.tickets)
            possible = ((ids == made.token[:, None]) & (shares > 0)).any(axis=1) | ~sampled
            drafts[who, j] = np.where(possible, made.token, -1)
            support[who, j], tickets[who, j] = ids, shares
            last = made.token.tolist()
        return drafts, support, tickets

    def _addresses(self, live: Sequence[Request]) -> tuple[U64, U64, U64, U64]:
        """Proposal keys, verification keys, rounds and positions [n]."""
        proposal, verify = self.keys(live)
        return (
            np.array(proposal, np.uint64),
            np.array(verify, np.uint64),
            np.array([request.steps for request in live], np.uint64),
            np.array([len(request.tokens) for request in live], np.uint64),
        )

    def _emit(self, request: Request, tokens: list[int]) -> None:
        tokens, finish = self.cut(request, tokens)
        before = [request.last, *tokens]
        earlier = [request.tokens[-2] if len(request.tokens) > 1 else request.ask.prompt[-1], *before]
        logprobs = tuple(self.logprob(before[place], token, earlier[place]) for place, token in enumerate(tokens))
        request.tokens += tokens
        request.steps += 1
        if finish is not None:
            self.slots[self.slots.index(request)] = None
        request.deliver(Emitted(tokens=tuple(tokens), logprobs=logprobs, finish=finish))


def _signed(seed: int) -> int:
    """A seed as 64 signed bits."""
    return (seed + 2**63) % 2**64 - 2**63


def _drawn(seed: int, arrival: int) -> int:
    """The seed of a request that brings none."""
    digest = hashlib.blake2b(seed.to_bytes(8, "little") + arrival.to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
