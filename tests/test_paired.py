"""Paired temperature 0: the reference agrees with both walks, and every planted sampler is caught."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from planted_references import Planted

from pp3.harness import paired
from pp3.harness.samplers import reference as sampler_module
from pp3.harness.samplers.contract import INVALIDATED, WANTED, Batch, Emission, target_table
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.kernels import reference
from pp3.targets import NAMES, Target, build
from pp3.targets.target import ONE, POSITIONS

SEED = Seed(bytes(range(32)))
PAIRS = 600
MANY = 4
Array = npt.NDArray[Any]


def tied(weights: dict[int, int], logits: dict[int, float]) -> Target:
    """One row for all positions."""
    row = np.zeros((1, 40), np.int64)
    row[0, list(weights)] = list(weights.values())
    draft = np.full((1, 40), -np.inf, np.float32)
    draft[0, list(logits)] = list(logits.values())
    return Target(
        name="tied",
        why="ties",
        weights=row,
        draft_logits=draft,
        row_of=np.zeros((POSITIONS, 1), np.int64),
        context_of=np.zeros(40, np.int64),
    )


@pytest.mark.parametrize("depth", [4, 5])
@pytest.mark.parametrize("name", NAMES)
def test_the_reference_has_no_mismatch(name: str, depth: int) -> None:
    found = paired.run(ReferenceSampler(), build(name), depth, SEED, 12_345, PAIRS)
    assert found.plain() == {"first": {}, "mismatches": 0, "pairs": PAIRS}


@pytest.mark.parametrize("pairs", [0, 1, 2, 3, 4, 5, 63, 64, 65, 257, 1000])
def test_any_number_of_pairs(pairs: int) -> None:
    found = paired.run(ReferenceSampler(), build("invalidated"), 4, SEED, 0, pairs)
    assert (found.pairs, found.mismatches) == (pairs, 0)


@pytest.mark.parametrize("pairs", range(1, 40))
def test_rows_hold_the_pairs_and_one_in_four_is_sampled(pairs: int) -> None:
    batches: list[Batch] = []
    paired.run(Planted(before=lambda batch: batches.append(batch) or batch), build("disjoint"), 4, SEED, 7, pairs)  # type: ignore[func-returns-value]  # append in a lambda
    mixed, alone = batches
    assert len(mixed) == paired.rows_for(pairs)
    assert (~mixed.sampled).sum() == len(alone) == pairs
    assert mixed.sampled.sum() >= pairs // 3
    assert mixed.requests.tolist() == list(range(7, 7 + len(mixed)))
    assert (mixed.carrier, alone.carrier) == (True, False)
    assert (mixed.given[mixed.sampled] == WANTED).all()
    assert not alone.sampled.any()
    assert (alone.given == mixed.given[~mixed.sampled]).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_draft_is_dealt(name: str) -> None:
    """The argmax, tokens without mass, the sampler's own, and -1; all lengths are met."""
    target = build(name)
    given, tokens, lengths = paired._deal(target, 5, reference.allocate(target.draft_logits), SEED, 0, 4000)
    assert set(lengths.tolist()) == set(range(1, 7))
    assert {WANTED, INVALIDATED} < set(given.ravel().tolist())
    assert (target.weights[target.row_of[0, 0], np.maximum(given[:, 0], 0)] == 0).any()
    assert (given[:, 0] == tokens[:, 0]).any()
    assert (np.sum(tokens >= 0, axis=1) == lengths).all()


def test_the_expected_walk_is_that_of_a_plain_loop() -> None:
    target, depth, n = build("context"), 5, 500
    supports = reference.allocate(target.draft_logits)
    given, tokens, lengths = paired._deal(target, depth, supports, SEED, 0, n)
    for i in range(n):
        own, drafts, context = [], [], 0
        for j in range(depth):
            own.append(int(supports.first[target.row_of[j, context]]))
            context = int(target.context_of[own[-1]])
            drafts.append(own[j] if given[i, j] == WANTED else int(given[i, j]))
        emitted, context = [], 0
        for j in range(depth + 1):
            emitted.append(int(target.weights[target.row_of[j, context]].argmax()))
            if j == depth or drafts[j] != emitted[j]:
                break
            context = int(target.context_of[drafts[j]])
        assert (lengths[i], tokens[i, : lengths[i]].tolist()) == (len(emitted), emitted)


def at_greedy(batch: Batch, number: int) -> int:
    """The row of the greedy request of this number."""
    return int(np.flatnonzero(~batch.sampled)[number])


def one_token(batch: Batch, emission: Emission) -> Emission:
    """Another first token in one request of the mixed launch."""
    if not batch.carrier:
        return emission
    tokens = emission.tokens.copy()
    tokens[at_greedy(batch, 5), 0] ^= 1
    return replace(emission, tokens=tokens)


def one_length(batch: Batch, emission: Emission) -> Emission:
    """One token more in one request of the mixed launch."""
    if not batch.carrier:
        return emission
    lengths = emission.num_sampled.copy()
    row = next(row for row in np.flatnonzero(~batch.sampled) if lengths[row] <= batch.depth)
    lengths[row] += 1
    return replace(emission, num_sampled=lengths)


def both_paths_alike(batch: Batch, emission: Emission) -> Emission:
    """The same wrong token with and without the carrier: only the argmax walk can tell."""
    tokens = emission.tokens.copy()
    tokens[at_greedy(batch, 5), 0] ^= 1
    return replace(emission, tokens=tokens)


def only_without_carrier(batch: Batch, emission: Emission) -> Emission:
    """A wrong token on the point-mass path alone."""
    return emission if batch.carrier else both_paths_alike(batch, emission)


def all_failed(batch: Batch, emission: Emission) -> Emission:
    """Nothing emitted."""
    return replace(emission, num_sampled=np.zeros_like(emission.num_sampled))


def ignores_void(batch: Batch) -> Batch:
    """-1 is drafted over."""
    return replace(batch, given=np.where(batch.given == INVALIDATED, WANTED, batch.given))


def always_sampled(batch: Batch) -> Batch:
    """Temperature 0 is not heard of."""
    return replace(batch, sampled=np.ones_like(batch.sampled))


def sampled_where_neighbours_are(batch: Batch) -> Batch:
    """A launch with a sampled row in it samples its second row too."""
    sampled = batch.sampled.copy()
    sampled[:-1] |= batch.sampled[1:] & batch.carrier
    return replace(batch, sampled=sampled)


@pytest.mark.parametrize(
    ("planted", "wrong", "path"),
    [
        pytest.param(Planted(after=one_token), 1, "mixed against point-mass", id="one-token"),
        pytest.param(Planted(after=one_length), 1, "mixed against point-mass", id="one-length"),
        pytest.param(Planted(after=only_without_carrier), 1, "mixed against point-mass", id="one-token-alone"),
        pytest.param(Planted(after=both_paths_alike), 1, "mixed against the argmax walk", id="both-paths-alike"),
        pytest.param(Planted(after=all_failed), PAIRS, "mixed against the argmax walk", id="nothing-emitted"),
        pytest.param(Planted(before=always_sampled), MANY, "mixed against point-mass", id="samples-at-temperature-0"),
        pytest.param(
            Planted(before=sampled_where_neighbours_are),
            MANY,
            "mixed against point-mass",
            id="temperature-of-a-neighbour",
        ),
    ],
)
@pytest.mark.parametrize("name", ["context", "invalidated"])
def test_planted_samplers_are_caught(planted: Planted, wrong: int, path: str, name: str) -> None:
    found = paired.run(planted, build(name), 5, SEED, 40, PAIRS)
    assert wrong <= found.mismatches <= 2 * PAIRS
    assert wrong == MANY or found.mismatches <= 2 * wrong  # a pair may differ on both of its paths
    assert found.pairs == PAIRS
    assert found.first["path"] == path
    assert set(found.first) == {"drafts", "expected", "got", "path", "request"}


@pytest.mark.parametrize("name", ["equal-q", "invalidated"])
def test_a_sampler_that_drafts_over_minus_1_is_caught(name: str) -> None:
    """Where its own draft is the argmax it is kept, and the round goes on; both paths do so alike."""
    found = paired.run(Planted(before=ignores_void), build(name), 5, SEED, 40, PAIRS)
    assert found.mismatches > 3
    assert found.first["path"] == "mixed against the argmax walk"


def test_the_first_mismatch_is_recorded() -> None:
    target, depth = build("context"), 4
    found = paired.run(Planted(after=one_token), target, depth, SEED, 1000, PAIRS)
    row = [i for i in range(PAIRS) if i % 4 != 1][5]
    given, tokens, _ = paired._deal(
        target, depth, reference.allocate(target.draft_logits), SEED, 1000, paired.rows_for(PAIRS)
    )
    assert found.first["request"] == 1000 + row
    assert found.first["drafts"] == given[row].tolist()
    assert found.first["expected"][0] == tokens[row, 0]
    assert found.first["got"][0] == tokens[row, 0] ^ 1


def test_highest_id_on_ties_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A temperature-0 row that is one-hot at the highest of tied tokens."""
    target = tied({3: ONE // 2, 30: ONE // 2}, {3: 1.0, 5: 0.0})
    assert paired.run(ReferenceSampler(), target, 4, SEED, 0, PAIRS).mismatches == 0

    def highest(of: Target) -> Array:
        table = target_table(of)
        table[len(of.weights) :] = 0
        table[len(of.weights) :, of.vocab - 1 - of.weights[0, ::-1].argmax()] = 1
        return table

    monkeypatch.setattr(sampler_module, "target_table", highest)
    sampler_module._tables.cache_clear()
    found = paired.run(ReferenceSampler(), target, 4, SEED, 0, PAIRS)
    sampler_module._tables.cache_clear()
    assert found.mismatches >= PAIRS
    assert (found.first["expected"][0], found.first["got"][0]) == (3, 30)


def test_highest_id_on_ties_of_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler's own draft is the highest of tied tokens: it is kept where the lowest would be rejected."""
    target = tied({3: ONE // 4, 30: 3 * ONE // 4}, {3: 1.0, 30: 1.0})
    assert paired.run(ReferenceSampler(), target, 4, SEED, 0, PAIRS).mismatches == 0
    propose = reference.propose_rows

    def highest(supports: reference.Supports, *rest: Any) -> reference.Proposal:
        return propose(supports._replace(first=np.full_like(supports.first, 30)), *rest)

    monkeypatch.setattr(reference, "propose_rows", highest)
    found = paired.run(ReferenceSampler(), target, 4, SEED, 0, PAIRS)
    assert found.mismatches > 30
    assert found.first["path"] == "mixed against the argmax walk"
