"""What no number of requests shows, shown by a few: the exact checks of faults in correct.py.

A fault is run beside the correct sampler of its kind, on the same requests. `draws`, `edges` and `exponential` hand
both the words at which a token, or a decision, changes; `counters` follows which word each request takes; `invariance`
runs the same requests in another order and launch; `replay` runs them twice.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pp3.harness.faults.correct import ACCEPT, CERTAIN, Correct
from pp3.harness.faults.fault import Fault
from pp3.harness.faults.running import Integers, Words
from pp3.harness.samplers.contract import Batch
from pp3.harness.samplers.words import words
from pp3.harness.seeds import Seed
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.problems import Problem
from pp3.harness.trial.run import batch_of

PREFIX = "exact:"
REQUESTS = 256
COUNTER = 1
TURNS = 16  # requests that each word is handed to: it matters only where their row is the one whose border it is
LAST = (1 << 64) - 1
Emitted = tuple[Integers, ...]  # what a run came to, row by row


def said_by(fault: Fault, counter: int = COUNTER) -> str:
    """What the exact check of a fault says of it; "" if it sees nothing. KeyError for a check that there is not.

    `counter` chooses drafts and the words of all other purposes.
    """
    check = CHECKS[fault.witness.removeprefix(PREFIX)]
    trial = make(TrialSpec(targets=list(fault.targets)), fault.sampler().describe(), fault.id)
    seed = Seed.of(trial.plan_sha256, counter)
    for problem in trial.problems:

        def batch(n: int, problem: Problem = problem) -> Batch:
            """The first n requests of the problem."""
            return batch_of(problem, trial.who, seed, 0, n, "cpu")

        said = check(fault, batch)
        if said:
            return f"{problem.name}: {said}"
    return ""


def _forced(fault: Fault, batch: Callable[[int], Batch]) -> str:
    """Whether the sampler and the correct one do the same at every word that matters."""
    sampler, beside = fault.sampler(), _beside(fault)
    given = batch(1)
    for purpose, chosen in _words(beside, given).items():
        there = batch(len(chosen) * (TURNS))
        for one in (sampler, beside):
            _hand(one, purpose, chosen)
        got, expected = _run(sampler, there), _run(beside, there)
        if differ := _first(got, expected):
            return f"request {differ[0]}, {purpose} word {int(chosen[differ[0] % len(chosen)]):#018x}: {differ[1]}"
    return ""


def _words(beside: Correct, batch: Batch) -> dict[str, Words]:
    """For each purpose the words around which something changes, and the ends."""
    tables, target = beside.tables(batch.target), batch.target
    borders: set[int] = {0, 1, LAST - 1, LAST}
    for running in (tables.draft, tables.bonus, tables.void, tables.plain, tables.residual):
        for row, weights in enumerate(running.weights):
            total = int(running.totals[row])
            for place in np.cumsum(weights)[weights > 0].tolist():
                edge = -(-place * (LAST + 1) // total) if total else 0
                borders |= {edge + step for step in (-1, 0) if edge + step <= LAST}
    found = dict.fromkeys(("draft", "replace", "bonus", "noise"), np.array(sorted(borders), np.uint64))
    edges: set[int] = {0, 1, LAST}
    if tables.accepting.size:
        for pair in range(len(target.weights)):
            judged = tables.edges[pair * len(target.weights) + pair]
            for edge in judged[judged < CERTAIN].tolist():
                edges |= {word for word in (2 * edge - 1, 2 * edge, 2 * edge + 1) if 0 <= word <= LAST}
    return found | {ACCEPT: np.array(sorted(edges), np.uint64)}


def _hand(sampler: Any, purpose: str, chosen: Words) -> None:
    """Let a sampler find these words, one a request, for one purpose, at every position."""

    def words_of(batch: Batch, asked: str, count: int, requests: Integers) -> Words:
        """As Correct.words_of."""
        own = words(batch.seed, f"faults/{asked}/{batch.target.name}", requests, count)
        return np.repeat(chosen[requests % len(chosen)][:, None], count, axis=1) if asked == purpose else own

    sampler.words_of = words_of


def _counters(fault: Fault, batch: Callable[[int], Batch]) -> str:
    """Whether two requests, or two places of one, take the same word."""
    sampler, taken = fault.sampler(), dict[tuple[str, int, int], tuple[int, int]]()
    said: list[str] = []
    calls: dict[str, int] = {}

    def words_of(batch: Batch, purpose: str, count: int, requests: Integers) -> Words:
        """As Correct.words_of, written down."""
        again = calls.get(purpose, 0)
        calls[purpose] = again + (count == 1)  # a call a column, or all columns at once
        for row, request in enumerate(requests.tolist()):
            for column in range(count):
                who = row, again if count == 1 else column
                before = taken.setdefault((purpose, request, column), who)
                if before[0] != row and not said:
                    said.append(f"requests {before[0]} and {row} take the same {purpose} word ({request}, {column})")
        return words(batch.seed, f"faults/{purpose}/{batch.target.name}", requests, count)

    sampler.words_of = words_of  # type: ignore[attr-defined]  # of Correct
    sampler.run(batch(REQUESTS))
    return said[0] if said else ""


def _invariance(fault: Fault, batch: Callable[[int], Batch]) -> str:
    """Whether a request comes to the same in another order, among others, alone."""
    there = batch(REQUESTS)
    whole = _run(fault.sampler(), there)
    orders = {
        "in another order": np.random.default_rng(COUNTER).permutation(REQUESTS),
        "without those before it": np.arange(REQUESTS // 3, REQUESTS),
        "alone": np.array([REQUESTS // 2]),
    }
    for name, which in orders.items():
        got = _run(fault.sampler(), there.take(which, len(which)))
        if differ := _first(got, tuple(part[which] for part in whole)):
            return f"request {int(which[differ[0]])} {name}: {differ[1]}"
    return ""


def _replay(fault: Fault, batch: Callable[[int], Batch]) -> str:
    """Whether the same requests come to the same again."""
    sampler, there = fault.sampler(), batch(REQUESTS)
    before = _run(sampler, there)
    if differ := _first(_run(sampler, there), before):
        return f"request {differ[0]} a second time: {differ[1]}"
    return ""


CHECKS: dict[str, Callable[[Fault, Callable[[int], Batch]], str]] = {
    "draws": _forced,
    "edges": _forced,
    "exponential": _forced,
    "counters": _counters,
    "invariance": _invariance,
    "replay": _replay,
}


def _beside(fault: Fault) -> Correct:
    """The correct sampler of a fault's kind."""
    return Correct(str(fault.sampler().describe().kind))


def _run(sampler: Any, batch: Batch) -> Emitted:
    """Columns that are read of what a sampler returns: lengths, tokens below them, drafts."""
    found = sampler.run(batch)
    if isinstance(found, np.ndarray):
        return (found,)
    if found.tokens is None:
        return (found.drafts,)
    live = np.arange(found.tokens.shape[1]) < found.num_sampled[:, None]
    parts = (found.num_sampled, np.where(live, found.tokens, 0))
    return parts if found.drafts is None else (*parts, found.drafts)


def _first(got: Emitted, expected: Emitted) -> tuple[int, str] | None:
    """The first row that differs, and how."""
    for one, other in zip(got, expected, strict=True):
        wrong = (one != other).reshape(len(one), -1).any(axis=1)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            return row, f"{one[row].tolist()}, must be {other[row].tolist()}"
    return None
