"""Where tokens lie in their laws: numbers that are uniform on [0, 1) and independent if and only if the laws hold.

The randomised probability integral transform: F(before x) + v p(x), with v uniform and a token's place F in an order
that is fixed beforehand. Given all that came before, the number is exactly uniform, whatever the law is at that place.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pp3.harness.engine.law import Law, Setting, law_of
from pp3.targets.chains import Chain

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
BELOW_ONE = float(np.nextafter(1, 0))
FORBIDDEN = -1.0


def uniform_ranks(law: Law, first: Law, classes: Integers, tokens: Integers, random: Floats) -> Floats:
    """Of each token [n], given the class before it; -1 for a token that the law forbids.

    `first` [classes, vocab] orders the tokens of each class, the largest first.
    """
    order = np.argsort(-first, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(law, order, axis=1), axis=1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(law.shape[1]), law.shape).copy(), axis=1)
    mass = law[classes, tokens]
    before = sums[classes, place[classes, tokens]] - mass
    return np.where(mass > 0, np.clip(before + random * mass, 0, BELOW_ONE), FORBIDDEN)


def penalty_ranks(
    logits: Law, setting: Setting, chain: Chain, prompts: Sequence[tuple[int, ...]], tokens: Integers, random: Floats
) -> Floats:
    """The same under a penalty for what was seen, seen tokens first, so that too little of it shows.

    tokens and random [n, length]; [n, length].
    """
    rows = np.arange(len(tokens))
    seen = np.zeros((len(tokens), chain.vocab), bool)
    for row, prompt in enumerate(prompts):
        seen[row, list(prompt)] = True
    before, found = np.array([prompt[-1] for prompt in prompts]), np.empty(tokens.shape)
    for place in range(tokens.shape[1]):
        law, token = law_of(logits[chain.class_of[before]], setting, seen), tokens[:, place]
        first, mass, was = np.where(seen, law, 0.0), law[rows, token], seen[rows, token]
        later = first.sum(axis=1) + np.cumsum(law - first, axis=1)[rows, token]
        upto = np.where(was, np.cumsum(first, axis=1)[rows, token], later)
        uniform = np.clip(upto - mass + random[:, place] * mass, 0, BELOW_ONE)
        found[:, place] = np.where(mass > 0, uniform, FORBIDDEN)
        seen[rows, token] = True
        before = token
    return found


def favoured(law: Law, draft: Law) -> Law:
    """How much the proposal favours each token over the target, where the target has it: an order for ranks."""
    return np.divide(draft, law, out=np.zeros_like(law), where=law > 0)


def equal_ranks(chances: Floats, equal: npt.NDArray[np.bool_], random: Floats) -> Floats:
    """Of pairs that are equal with these chances if independent: below the chance if equal, above it if not, [n]."""
    return np.where(equal, random * chances, chances + random * (1 - chances))
