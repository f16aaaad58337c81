"""The law of whole rounds: against rounds enumerated one by one, and block verification as its paper writes it."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from walked_paths import random_pair

from pp3.harness.cells import Event, enumerate_cells
from pp3.harness.joint import LARGEST, joint_law, size, tokens_of
from pp3.harness.oracle import Law
from pp3.harness.samplers.contract import Carrier, Description, Kind, Rule, Void
from pp3.harness.trial.problems import WHOLE_ROUNDS, choose, names
from pp3.harness.trial.seen import seen
from pp3.targets import invalidated, pairs
from pp3.targets.pairs import Pair
from pp3.targets.target import ONE

Row = list[Fraction]
Rounds = dict[tuple[int, ...], Fraction]


def who(rule: Rule, **more: Any) -> Description:
    """A verifier by a rule."""
    given: dict[str, Any] = {"name": "it", "kind": Kind.VERIFIER, "target_carrier": Carrier.PROBS, "rule": rule}
    return Description(**given | {"greedy": True} | more)


def code_of(tokens: tuple[int, ...], vocab: int) -> int:
    """The code of a round."""
    code = -1
    for token in tokens:
        code = (code + 1) * vocab + token
    return code


def laws(pair: Pair, j: int, before: tuple[int, ...], start: int = 0) -> tuple[Row, Row]:
    """Target and proposal at a position after some tokens."""
    context = int(pair.context_of[before[-1]]) if before else start
    row = int(pair.row_of[j, context])
    return (
        [Fraction(int(p), ONE) for p in pair.weights[row]],
        [Fraction(int(q), ONE) for q in pair.draft_weights[row]],
    )


def drafts(pair: Pair) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Every block of drafts with its probability."""
    for block in itertools.product(range(pair.vocab), repeat=pair.depth):
        mass = Fraction(1)
        for j, token in enumerate(block):
            mass *= laws(pair, j, block[:j])[1][token]
        if mass:
            yield block, mass


def block_verification(pair: Pair) -> Rounds:
    """Algorithm 2 of Sun et al. 2024 (arXiv 2403.10444), over every block and every pattern of eta_i <= h_i."""
    found: Rounds = defaultdict(Fraction)
    depth = pair.depth
    for block, mass in drafts(pair):
        p, h, left = [Fraction(1)], [], []
        for i in range(1, depth + 1):
            target, draft = laws(pair, i - 1, block[: i - 1])
            p.append(min(p[-1] * target[block[i - 1]] / draft[block[i - 1]], Fraction(1)))
        for i in range(depth + 1):
            target, draft = laws(pair, i, block[:i])
            left.append(
                target if i == depth else [max(p[i] * a - b, Fraction(0)) for a, b in zip(target, draft, strict=True)]
            )
            whole = sum(left[i]) + 1 - p[i]
            h.append(p[i] if i == depth else sum(left[i]) / whole if whole else Fraction(0))
        for passed in itertools.product((False, True), repeat=depth):
            chance = mass
            for i, one in enumerate(passed, 1):
                chance *= h[i] if one else 1 - h[i]
            tau = max((i for i, one in enumerate(passed, 1) if one), default=0)
            for token, part in enumerate(left[tau]):
                if chance and part:
                    found[(*block[:tau], token)] += chance * part / sum(left[tau])
    return dict(found)


def standard(pair: Pair, pattern: str, residual_of_void: bool) -> Rounds:
    """Position by position: keep with min(1, P/Q), else draw from (P - Q)+; the bonus from P."""
    found: Rounds = defaultdict(Fraction)
    void = invalidated(pattern, pair.depth)

    def go(tokens: tuple[int, ...], mass: Fraction, start: int) -> None:
        j = len(tokens)
        target, draft = laws(pair, j, tokens, start)
        residual = [max(a - b, Fraction(0)) for a, b in zip(target, draft, strict=True)]
        if j == pair.depth or void[j]:
            law = residual if j < pair.depth and residual_of_void and any(residual) else target
            for token, part in enumerate(law):
                if part:
                    found[(*tokens, token)] += mass * part / sum(law)
            return
        for y, drafted in enumerate(draft):
            if drafted:
                keep = min(Fraction(1), target[y] / drafted)
                if keep:
                    go((*tokens, y), mass * drafted * keep, start)
                for x, part in enumerate(residual):
                    if keep < 1 and part:
                        found[(*tokens, x)] += mass * drafted * (1 - keep) * part / sum(residual)

    for start in range(pair.starts):
        go((), Fraction(1, pair.starts), start)
    return dict(found)


def coded(rounds: Rounds, vocab: int) -> dict[int, Fraction]:
    """By code."""
    return {code_of(tokens, vocab): mass for tokens, mass in rounds.items()}


@pytest.mark.parametrize(
    ("vocab", "depth", "contexts"), [(2, 1, 1), (3, 1, 1), (2, 4, 1), (3, 3, 1), (3, 2, 2), (4, 2, 3), (2, 3, 2)]
)
def test_block_verification_is_the_papers(vocab: int, depth: int, contexts: int, rng: np.random.Generator) -> None:
    for _ in range(4):
        pair = random_pair(rng, vocab, depth, contexts)
        expected = block_verification(pair)
        assert sum(expected.values()) == 1
        assert joint_law(Law(seen(pair, who(Rule.BLOCK))), depth, "none") == coded(expected, vocab)


def test_block_verification_keeps_more_and_emits_the_target(rng: np.random.Generator) -> None:
    """Known of it: the first token has the target's law, and rounds are no shorter than standard ones on average."""
    longer = 0
    for _ in range(6):
        pair = random_pair(rng, 3, 3, 1)
        block, one_by_one = block_verification(pair), standard(pair, "none", False)
        for rounds in (block, one_by_one):
            for token in range(3):
                emitted = sum((m for tokens, m in rounds.items() if tokens[0] == token), Fraction(0))
                assert emitted == Fraction(int(pair.weights[0, token]), ONE)
        mean = [
            sum((len(tokens) * mass for tokens, mass in rounds.items()), Fraction(0)) for rounds in (block, one_by_one)
        ]
        assert mean[0] >= mean[1]
        longer += mean[0] > mean[1]
    assert longer


@pytest.mark.parametrize("void", [Void.FULL_TARGET, Void.RESIDUAL])
@pytest.mark.parametrize(("vocab", "depth", "contexts"), [(2, 1, 1), (3, 3, 1), (3, 2, 2), (4, 2, 3), (2, 4, 2)])
def test_standard_rounds_are_those_of_a_walk(
    vocab: int, depth: int, contexts: int, void: Void, rng: np.random.Generator
) -> None:
    patterns = ("none", "first", "middle", "last", "every")
    pair = random_pair(rng, vocab, depth, contexts, patterns=patterns)
    law = Law(seen(pair, who(Rule.STANDARD, void=void)))
    for pattern in patterns:
        expected = standard(pair, pattern, void is Void.RESIDUAL)
        assert joint_law(law, depth, pattern) == coded(expected, vocab)


def test_rounds_of_several_starts(rng: np.random.Generator) -> None:
    pair = random_pair(rng, 4, 2, 2, temperatures=(0.5, 2.0))
    found = joint_law(Law(seen(pair, who(Rule.STANDARD))), 2, "none")
    assert found == coded(standard(pair, "none", False), 4)


@pytest.mark.parametrize("name", WHOLE_ROUNDS)
@pytest.mark.parametrize("rule", [Rule.STANDARD, Rule.BLOCK])
def test_the_cells_of_our_pairs_hold_it(name: str, rule: Rule) -> None:
    pair = pairs.build(name)
    cells = enumerate_cells(Law(seen(pair, who(rule))), pair.depth, {Event.JOINT})
    expected = coded(block_verification(pair) if rule is Rule.BLOCK else standard(pair, "none", False), pair.vocab)
    (cell,) = cells
    law = {int(a): Fraction(s, sum(cell.shares)) for a, s in zip(cell.atoms, cell.shares, strict=True)}
    assert law == expected


def test_the_rules_differ_on_a_pair_of_ours() -> None:
    """Else block verification would pass as standard, or the other way round; with one draft they are the same."""
    for name, same in (("whole", False), ("shared-noise", True)):
        pair = pairs.build(name)
        laws_of = [joint_law(Law(seen(pair, who(rule))), pair.depth, "none") for rule in (Rule.BLOCK, Rule.STANDARD)]
        assert (laws_of[0] == laws_of[1]) is same


def test_block_verification_is_held_to_whole_rounds_and_first_tokens() -> None:
    """Of its later positions no law is known; temperature 0 has one."""
    problems, left = choose(who(Rule.BLOCK), names(Kind.VERIFIER))
    events = {p.name: {cell.event for cell in p.cells} for p in problems if p.name != "greedy"}
    between = {Event.MATCH, Event.ROUND, Event.PAIR, Event.REPEAT}
    assert events == {name: {Event.JOINT} | between for name in WHOLE_ROUNDS}
    assert set(left) == set(names(Kind.VERIFIER)) - {*WHOLE_ROUNDS, "greedy"}


@pytest.mark.parametrize(("vocab", "depth"), [(2, 1), (3, 2), (4, 2), (5, 3), (1, 4)])
def test_codes_number_the_rounds(vocab: int, depth: int) -> None:
    """Each once, without a gap, and back."""
    rounds = [r for n in range(1, depth + 2) for r in itertools.product(range(vocab), repeat=n)]
    codes = [code_of(one, vocab) for one in rounds]
    assert sorted(codes) == list(range(size(vocab, depth)))
    assert [tokens_of(code, vocab) for code in codes] == rounds


def test_too_many_rounds_are_refused() -> None:
    pair: Any = SimpleNamespace(name="vast", context_of=np.zeros(32), starts=1)
    assert size(32, 4) > LARGEST
    with pytest.raises(ValueError, match="vast: 34,636,832 joint outcomes; want at most 1,048,576"):
        joint_law(Law(pair), 4, "none")
