"""The enumeration of draws: every ticket boundary of all 256 supports, by the reference and through the kernels."""

import numpy as np
import pytest
from drawn import INTERPRETED, ROWS, best, boundaries, tokens_of

from pp3 import targets
from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend, Dtype
from pp3.harness.exact import draws, suite
from pp3.harness.exact.enumeration import Enumeration, Values, differences, digest
from pp3.harness.seeds import integers
from pp3.kernels import reference
from pp3.kernels.addressing import words
from pp3.kernels.reference import ONE, SUPPORT, TAU, allocate

PARTS = ("ids", "tickets", "ends")


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


def test_the_supports_are_those_of_the_claim() -> None:
    names = [name for name, _ in draws.rows()]
    assert len(names) == len(set(names)) == draws.SUPPORTS == 256
    for name in targets.NAMES:
        for number, logits in enumerate(targets.build(name).draft_logits):
            assert (ROWS[f"{name}/row-{number}"] == logits).all()
    assert all(row.dtype == np.float32 and SUPPORT <= len(row) <= 1 << 18 for row in ROWS.values())
    assert not any(allocate(row[None]).failed[0] for row in ROWS.values())
    assert {SUPPORT, 97, 12_301} <= {len(row) for row in ROWS.values()}


@pytest.mark.parametrize(
    ("name", "tickets"),
    [
        pytest.param("flat", [ONE // 32] * 32, id="flat-has-equal-cells"),
        pytest.param("one-finite", [ONE], id="one-finite-logit-takes-all"),
        pytest.param("31-tickets", [31, ONE - 31], id="a-cell-of-31"),
    ],
)
def test_a_special_support(name: str, tickets: list[int]) -> None:
    held = allocate(ROWS[name][None]).tickets[0]
    assert sorted(held[held > 0].tolist()) == tickets


def test_ties_cross_the_32nd_place() -> None:
    """24 threes and 24 ones: the eight lowest ids of the ones come in, and tie with sixteen that do not."""
    assert allocate(ROWS["ties-at-the-border"][None]).ids[0].tolist() == list(range(SUPPORT))
    row = ROWS["ties-everywhere"]
    last = np.sort(row)[::-1][SUPPORT - 1]
    assert (row == last).sum() > (row[allocate(row[None]).ids[0]] == last).sum()


def test_hashed_rows_are_sums_of_four_words() -> None:
    """Recomputed in Python integers from the hash itself."""
    packed = integers(draws.SHARED, "row-7", 5).tolist()
    sums = [sum(int(number) >> 16 * k & 0xFFFF for k in range(4)) for number in packed]
    assert draws.hashed("row-7", 5, 8.0).tolist() == [(total - 131_070) / 4096 for total in sums]


def test_an_address_gives_its_draw(rng: np.random.Generator) -> None:
    """Whatever the eight bits below it, which are not all alike."""
    chosen = np.concatenate([[0, 1, ONE - 2, ONE - 1], rng.integers(0, ONE, 1000)])
    block = words(np.full(len(chosen), draws.KEY, np.uint64), *draws.addresses(chosen))
    assert (block[:, 0] >> np.uint32(8) == chosen).all()
    assert len(set((block[:, 0] & np.uint32(0xFF)).tolist())) > 200


def test_expected_are_tickets_then_two_zeros_ids_and_ends() -> None:
    expected = draws.expect(list(ROWS))
    assert list(expected) == [key for name in ROWS for key in (name, *(f"{name}/{what}" for what in PARTS))]
    for name, logits in ROWS.items():
        counts, supports = expected[name], allocate(logits[None])
        assert isinstance(counts, list)
        assert counts == [*supports.tickets[0].tolist(), 0, 0]
        assert sum(counts) == ONE
        assert expected[f"{name}/ids"] == best(logits) == supports.ids[0].tolist()
        assert expected[f"{name}/tickets"] == supports.tickets[0].tolist()
        found = expected[f"{name}/ends"]
        assert isinstance(found, list)
        *tokens, differing = found
        assert (len(tokens), differing) == (draws.ENDS, 0)
        assert tokens == tokens_of(supports, np.array(draws.ends(supports.tickets[0].tolist())))
        for place in np.flatnonzero(supports.tickets[0]).tolist():
            assert tokens[2 * place : 2 * place + 2] == [supports.ids[0, place]] * 2
    assert draws.expect(["flat", "no such row"]).keys() == {"flat", *(f"flat/{what}" for what in PARTS)}


def test_the_size_is_the_number_of_draws() -> None:
    each = ONE + draws.ENDS
    assert [draws.size(supports) for supports in (0, 1, draws.SUPPORTS)] == [0, each, each * draws.SUPPORTS]


def test_both_sides_of_every_boundary_of_all_supports() -> None:
    met = 0
    for name, logits in ROWS.items():
        supports = allocate(logits[None])
        chosen = boundaries(supports)
        keys, sampled = np.full(len(chosen), draws.KEY, np.uint64), np.ones(len(chosen), np.bool_)
        got = draws._draw(supports, sampled, keys, *draws.addresses(chosen))
        assert got.token.tolist() == tokens_of(supports, chosen), name
        met += len(chosen)
    assert met > 10_000


@pytest.mark.parametrize("name", INTERPRETED)
def test_both_sides_of_every_boundary_through_the_kernels(name: str, kernels: Arithmetic) -> None:
    """One launch a support, with the support found anew by sorting in Python."""
    logits = ROWS[name]
    supports = allocate(logits[None])
    chosen = boundaries(supports)
    n = len(chosen)
    got = kernels.propose(
        np.broadcast_to(logits, (n, len(logits))),
        Dtype.FP32,
        np.ones(n, np.bool_),
        np.full(n, draws.KEY, np.uint64),
        *draws.addresses(chosen),
        TAU,
    )
    assert (got.status == 0).all()
    assert (got.ids == best(logits)).all()
    assert (got.tickets == supports.tickets[0]).all()
    assert got.token.tolist() == tokens_of(supports, chosen)


@pytest.mark.soak
def test_every_draw_of_the_supports_of_a_cpu() -> None:
    """All 2^24, a minute."""
    found = draws.observe_reference(list(suite.ON_CPU))
    assert differences(found.values, draws.expect(list(suite.ON_CPU))) == []
    assert found.compared == (ONE + draws.ENDS) * len(suite.ON_CPU)


@pytest.mark.soak
def test_every_boundary_of_all_supports_through_the_kernels(kernels: Arithmetic) -> None:
    for name, logits in ROWS.items():
        supports = allocate(logits[None])
        chosen = boundaries(supports)
        n = len(chosen)
        rows, on = np.broadcast_to(logits, (n, len(logits))), np.ones(n, np.bool_)
        address = (np.full(n, draws.KEY, np.uint64), *draws.addresses(chosen))
        got = kernels.propose(rows, Dtype.FP32, on, *address, TAU)
        want = reference.propose(rows, on, *address, TAU)
        assert digest(*got) == digest(*want), name


@pytest.mark.gpu
def test_every_draw_of_every_support_on_a_gpu() -> None:
    found = draws.observe_cuda(list(ROWS))
    assert differences(found.values, draws.expect(list(ROWS))) == []
    assert found.compared == (ONE + draws.ENDS) * draws.SUPPORTS


def test_what_differs_is_named_once() -> None:
    """The first place of a key, a key on one side only, another length, text."""
    one: Values = {"a": [1, 2, 3], "b": [1], "c": "0f", "d": [0]}
    other: Values = {"a": [1, 5, 6], "b": [1, 2], "c": "10", "e": [0]}
    assert differences(one, other) == [
        "a[1] is 2, must be 5",
        "b is 1 integers, must be 2 integers",
        "c is 0f, must be 10",
        "d is 1 integers, must be None",
        "e is None, must be 1 integers",
    ]
    assert differences(one, dict(one)) == []


def test_a_digest_is_of_the_values() -> None:
    """Whatever their width and layout; order and sign count."""
    assert digest(np.array([1, -2], np.int32)) == digest(np.array([1, 9, -2, 9], np.int64)[::2])
    assert digest(np.array([1, 2])) == digest(np.array([1]), np.array([2]))
    assert digest(np.array([1, 2])) != digest(np.array([2, 1]))
    assert digest(np.array([1])) != digest(np.array([-1]))


def test_an_enumeration_in_receipt_form() -> None:
    found = Enumeration(id="x", claim="y", compared=3, values={"k": [1]})
    assert found.plain() == {"claim": "y", "compared": 3, "id": "x", "values": {"k": [1]}}
