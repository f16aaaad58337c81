"""SGLang's chain: a walk over coins against exact intervals, with a stand-in for its launcher and with the real one."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pp3 import qualify
from pp3.harness.samplers import sglang_file
from pp3.harness.samplers.contract import Batch, Emission, Rule
from pp3.harness.samplers.sglang_chain import Chain
from pp3.harness.verdict import Verdict
from pp3.targets import pairs
from pp3.targets.target import ONE

Weights = npt.NDArray[np.int64]
TOP = ONE - 1  # the largest coin, as torch.rand draws them: multiples of 2^-24
REQUESTS = 6_000  # of each law
RULES = pytest.mark.parametrize("rule", [Rule.STANDARD, Rule.BLOCK])


def chain(fault: str = "", **given: Any) -> None:
    """What the launcher does, in FP64: products and sums of multiples of 2^-24 are exact."""
    ids, coins = given["candidates"][:, 1:].long(), given["uniform_samples"].double()
    p, q = given["target_probs"].double(), given["draft_probs"].double()
    n, depth = ids.shape
    at = torch.arange(n)
    wanted, drafted = (law[:, :depth].gather(2, ids[..., None])[..., 0] for law in (p, q))
    scale = torch.ones(n, dtype=torch.float64)
    if given["block_verification"]:
        length, ratio = torch.zeros(n, dtype=torch.int64), scale
        for j in range(1, depth + 1):
            ratio = (ratio * wanted[:, j - 1] / drafted[:, j - 1]).clamp(max=1)
            left = (ratio[:, None] * p[:, j] - q[:, min(j, depth - 1)]).clamp(min=0).sum(1)
            chance = torch.where((ratio < 1) & (j < depth), left / (left + 1 - ratio), ratio)
            kept = coins[:, j - 1] < chance
            length, scale = torch.where(kept, j, length), torch.where(kept, ratio, scale)
    else:
        kept = coins * drafted <= wanted if fault == "inclusive" else coins * drafted < wanted
        length = kept.long().cumprod(1).sum(1)
    rejected = length < depth
    last = length.clamp(max=depth - 1)
    law = p[at, 0 if fault == "first row" else length]
    if fault != "no residual":
        law = torch.where(rejected[:, None], (scale[:, None] * law - q[at, last]).clamp(min=0), law)
    final = coins[at, last] if fault == "shared coin" else given["uniform_samples_for_final_sampling"].double()
    place = final[:, None] * law.sum(1, keepdim=True)
    tokens = torch.cat([ids, ids[:, :1]], 1)
    tokens[at, length] = (law.cumsum(1) <= place).sum(1)
    given["predicts"].copy_(tokens.flatten())
    reached = torch.arange(depth + 1) <= length[:, None]
    given["accept_index"].copy_(torch.where(reached, given["retrive_index"], -1))
    given["accept_token_num"].copy_(length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A coin for which another round was emitted than its rational interval says."""

    place: str
    coin: int  # over 2^24
    beyond: int  # coins from the edge next to it: 0 is the first on its upper side
    emitted: list[int]
    expected: list[int]


def beside(edge: int) -> list[int]:
    """The coins around an edge, the least and the largest."""
    return sorted(coin for coin in {0, edge - 1, edge, edge + 1, TOP} if 0 <= coin < ONE)


def drawn(law: Weights, coin: int) -> int:
    """The token whose running sum is the first above coin / 2^24 of the whole."""
    return int(np.searchsorted(np.cumsum(law) * ONE, coin * int(law.sum()), side="right"))


def walk(sampler: Chain, target: Weights, draft: Weights) -> list[Difference]:
    """Rounds of one draft at the edges of its acceptance and of every running sum; target [2, V], draft [V]."""
    cases: list[tuple[str, int, int, int, int, int]] = []  # place, draft, its coin, the final coin, which, beyond
    for token in np.flatnonzero(draft).tolist():
        edge = -(-int(target[0, token]) * ONE // int(draft[token]))
        for coin in beside(edge):
            cases.append((f"draft {token}", token, coin, 0, coin, coin - edge))
    worst = int((target[0] - draft).argmin())
    best = int(np.minimum(target[0], draft).argmax())
    for place, token, coin, law in (
        ("residual", worst, TOP, np.maximum(target[0] - draft, 0)),
        ("bonus", best, 0, target[1]),
    ):
        for edge in {-(-int(total) * ONE // int(law.sum())) for total in np.cumsum(law)}:
            for final in beside(edge):
                cases.append((place, token, coin, final, final, final - edge))
    n = len(cases)
    law = torch.from_numpy(target / ONE).float().expand(n, -1, -1)
    emission = sampler.verify(
        torch.tensor([[case[1]] for case in cases], dtype=torch.int32),
        law.contiguous(),
        torch.from_numpy(draft / ONE).float().expand(n, 1, -1).contiguous(),
        torch.tensor([[case[2] / ONE] for case in cases], dtype=torch.float32),
        torch.tensor([case[3] / ONE for case in cases], dtype=torch.float32),
    )
    found = []
    for (place, token, coin, final, which, beyond), row, length in zip(
        cases, emission.tokens.tolist(), emission.num_sampled.tolist(), strict=True
    ):
        kept = coin * int(draft[token]) < int(target[0, token]) * ONE
        last = drawn(target[1] if kept else np.maximum(target[0] - draft, 0), final)
        expected = [token, last] if kept else [last]
        if row[:length] != expected:
            found.append(Difference(place=place, coin=which, beyond=beyond, emitted=row[:length], expected=expected))
    return found


def chances(target: Weights, draft: Weights, drafts: tuple[int, ...]) -> tuple[Fraction, Fraction]:
    """Below which coins one draft of a block of two is kept, and both."""
    first, both = (Fraction(int(target[j, drafts[j]]), int(draft[j, drafts[j]])) for j in (0, 1))
    ratio = min(Fraction(1), first)
    parts = (max(ratio * int(p) - int(q), Fraction(0)) for p, q in zip(target[1], draft[1], strict=True))
    left = sum(parts, Fraction(0)) / ONE
    one = ratio if ratio == 1 else left / (left + 1 - ratio)
    return one, min(Fraction(1), ratio * both)


def walk_block(sampler: Chain, target: Weights, draft: Weights) -> list[Difference]:
    """Lengths of rounds of two drafts at the edges of both acceptances; target [3, V], draft [2, V]."""
    cases: list[tuple[str, tuple[int, ...], tuple[int, int], int, int, int]] = []
    for drafts in itertools.product(range(draft.shape[1]), repeat=2):
        one, both = chances(target, draft, drafts)
        for coin in beside(edge := math.ceil(both * ONE)):
            length = 2 if coin < both * ONE else int(one * ONE > TOP)
            cases.append((f"both of {drafts}", drafts, (TOP, coin), coin, coin - edge, length))
        if both < 1:
            for coin in beside(edge := math.ceil(one * ONE)):
                length = 2 if both * ONE > TOP else int(coin < one * ONE)
                cases.append((f"one of {drafts}", drafts, (coin, TOP), coin, coin - edge, length))
    n = len(cases)
    emission = sampler.verify(
        torch.tensor([case[1] for case in cases], dtype=torch.int32),
        torch.from_numpy(target / ONE).float().expand(n, -1, -1).contiguous(),
        torch.from_numpy(draft / ONE).float().expand(n, -1, -1).contiguous(),
        torch.tensor([case[2] for case in cases], dtype=torch.float64).div(ONE).float(),
        torch.zeros(n),
    )
    return [
        Difference(place=place, coin=coin, beyond=beyond, emitted=[kept - 1], expected=[length])
        for (place, _, _, coin, beyond, length), kept in zip(cases, emission.num_sampled.tolist(), strict=True)
        if kept - 1 != length
    ]


def rows_of(name: str) -> tuple[Weights, Weights]:
    """Two target rows and one of the proposal."""
    pair = pairs.build(name)
    return pair.weights[:2], pair.draft_weights[0]


DYADIC = (np.array([[8, 4, 2, 2, 0], [0, 2, 2, 4, 8]]) * (ONE // 16), np.array([2, 2, 4, 0, 8]) * (ONE // 16))


@RULES
def test_no_coin_of_the_stand_in_differs(rule: Rule) -> None:
    sampler = Chain(rule, chain)
    for rows in (DYADIC, rows_of("far"), rows_of("near")):
        assert walk(sampler, *rows) == []


@pytest.mark.parametrize(
    ("fault", "first"),
    [
        ("inclusive", Difference(place="draft 4", coin=0, beyond=0, emitted=[4, 1], expected=[0])),
        ("no residual", None),
        ("first row", None),
    ],
)
def test_a_planted_fault_is_found_at_its_coin(fault: str, first: Difference | None) -> None:
    found = walk(Chain(Rule.STANDARD, partial(chain, fault)), *DYADIC)
    assert found
    assert first is None or first in found


def test_no_coin_of_a_block_of_the_stand_in_differs() -> None:
    pair = pairs.build("whole")
    assert walk_block(Chain(Rule.BLOCK, chain), pair.weights, pair.draft_weights) == []
    assert walk_block(Chain(Rule.STANDARD, chain), pair.weights, pair.draft_weights)


class Mistold(Chain):
    """The draft's law is that of temperature 1, whatever it was drawn at."""

    def run(self, batch: Batch) -> Emission:
        draft_probs = batch.draft_logits.softmax(-1)
        return self.verify(batch.draft_ids, batch.target_probs, draft_probs, batch.coins, batch.final_coins)


def verdict_of(sampler: Chain, target: str, requests: int = REQUESTS) -> Verdict:
    report = qualify(sampler, targets=[target], requests=requests, device="cpu")
    print(report)
    return report.verdict


@RULES
@pytest.mark.parametrize("target", ["shared-noise", "whole", "greedy"])
def test_the_stand_in_passes(rule: Rule, target: str) -> None:
    assert verdict_of(Chain(rule, chain), target) is Verdict.PASS


def test_the_wrong_carrier_fails() -> None:
    assert verdict_of(Mistold(Rule.STANDARD, chain), "context") is Verdict.FAIL


@pytest.mark.parametrize("fault", ["no residual", "first row", "shared coin"])
def test_a_planted_fault_fails(fault: str) -> None:
    assert verdict_of(Chain(Rule.STANDARD, partial(chain, fault)), "whole") is Verdict.FAIL


@pytest.mark.parametrize(("rule", "other"), [(Rule.STANDARD, Rule.BLOCK), (Rule.BLOCK, Rule.STANDARD)])
def test_the_other_rule_fails(rule: Rule, other: Rule) -> None:
    sampler = Chain(rule, lambda **given: chain(**given | {"block_verification": other is Rule.BLOCK}))
    assert verdict_of(sampler, "whole", 20_000) is Verdict.FAIL


def real(rule: Rule) -> Chain:
    """With the real file, or a named skip."""
    if why := sglang_file.missing():
        pytest.skip(why)
    return Chain(rule)


@RULES
def test_no_real_coin_differs_where_fp32_is_exact(rule: Rule) -> None:
    assert walk(real(rule), *DYADIC) == []


@pytest.mark.parametrize("name", ["far", "near"])
def test_a_real_coin_differs_only_next_to_its_edge(name: str) -> None:
    """coin * q and coin * sum are rounded to 24 bits: the coin below an edge may fall on it."""
    found = walk(real(Rule.STANDARD), *rows_of(name))
    print(*found, sep="\n")
    assert {difference.beyond for difference in found} <= {-1}


def test_a_real_coin_of_a_block_differs_only_near_its_edge() -> None:
    """A ratio below 1 of two drafts is rounded three times, each time by less than a coin."""
    pair = pairs.build("whole")
    found = walk_block(real(Rule.BLOCK), pair.weights, pair.draft_weights)
    print(*found, sep="\n")
    assert all(abs(difference.beyond) <= 3 for difference in found)


@RULES
def test_real_rounds_are_those_of_the_stand_in(rule: Rule) -> None:
    """Drawn coins, four positions deep, each row judged in its context."""
    sampler, pair = real(rule), pairs.build("context")
    rng = np.random.default_rng(7)
    drafts = rng.integers(0, pair.vocab, (48, pair.depth))
    contexts = np.concatenate([np.zeros((48, 1), np.int64), pair.context_of[drafts]], axis=1)
    place = np.arange(pair.depth + 1)
    rows = pair.row_of[place, contexts]
    coins = torch.from_numpy(rng.integers(0, ONE, (48, pair.depth + 1)) / ONE).float()
    given = (
        torch.from_numpy(drafts).int(),
        torch.from_numpy(pair.weights[rows] / ONE).float(),
        torch.from_numpy(pair.draft_weights[rows[:, :-1]] / ONE).float(),
        coins[:, :-1].contiguous(),
        coins[:, -1].contiguous(),
    )
    emitted, expected = sampler.verify(*given), Chain(rule, chain).verify(*given)
    assert torch.equal(emitted.num_sampled, expected.num_sampled)
    assert torch.equal(emitted.tokens, expected.tokens)


def test_a_real_final_coin_can_emit_an_impossible_token() -> None:
    """The sum and the running sums round differently, so the last coins lie beyond every running sum: token V - 1."""
    sampler = real(Rule.STANDARD)
    law = torch.tensor([0.5, 0.5 - 2.0**-23, 2.0**-25, 2.0**-25, 0.0]).expand(1, 2, -1).contiguous()
    emission = sampler.verify(
        torch.zeros(1, 1, dtype=torch.int32), law, law[:, :1], torch.zeros(1, 1), torch.tensor([TOP / ONE])
    )
    assert emission.tokens.tolist() == [[0, 4]]
