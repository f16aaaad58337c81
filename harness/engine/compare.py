"""Answers to equal requests, compared token for token: in another arrangement, and with and without speculation."""

import numpy as np

from pp3.harness.engine.law import Law
from pp3.harness.engine.tally import TIES, Found, Told
from pp3.targets.chains import Chain


def replayed(found: Found, first: Told, again: Told, arrangement: str) -> None:
    """Equal requests in another arrangement have equal tokens."""
    before = {ask.number: answer.tokens for ask, answer in zip(first.asks, first.answers, strict=True)}
    wrong = sum(before.get(ask.number) != answer.tokens for ask, answer in zip(again.asks, again.answers, strict=True))
    found.note(f"replay/{arrangement}", len(again.asks), wrong)


def paths(found: Found, one: Told, other: Told, chain: Chain, law: Law) -> None:
    """Greedy answers with and without speculation are equal up to a tie, which is counted by itself."""
    compared = wrong = ties = 0
    others = {ask.prompt: answer.tokens for ask, answer in zip(other.asks, other.answers, strict=True)}
    for ask, answer in zip(one.asks, one.answers, strict=True):
        theirs = others.get(ask.prompt)
        if theirs is None:
            continue
        compared += 1
        at = next((i for i, (a, b) in enumerate(zip(answer.tokens, theirs, strict=False)) if a != b), -1)
        if at < 0:
            wrong += len(answer.tokens) != len(theirs)
            continue
        before = answer.tokens[at - 1] if at else ask.prompt[-1]
        tied = set(np.flatnonzero(law[chain.class_of[before]] > 0).tolist())
        if {answer.tokens[at], theirs[at]} <= tied:
            ties += 1
        else:
            wrong += 1
    found.note("greedy/paths", compared, wrong)
    found.note(TIES, ties, 0)
