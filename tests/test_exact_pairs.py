"""Temperature 0 enumerated: the rows are what they claim, the walk by hand, the reference and the interpreter equal."""

from typing import Any

import numpy as np
import pytest

from pp3.harness import backends
from pp3.harness.backends import Backend, Reference
from pp3.harness.exact import pairs
from pp3.harness.exact.enumeration import differences
from pp3.harness.exact.pairs import DEPTHS, MODEL, PATHS, VOCABS, Rounds, argmax, excluded_rate, walk
from pp3.kernels import reference


@pytest.mark.parametrize(
    ("row", "best"),
    [
        pytest.param([0.0, 1.0, 1.0], 1, id="lower-id"),
        pytest.param([-1.0, -0.0, 0.0], 1, id="signed-zeros-are-equal"),
        pytest.param([-np.inf, -np.inf, -5.0], 2, id="masked"),
        pytest.param([2.0, 2.0, 2.0], 0, id="all-equal"),
    ],
)
def test_argmax(row: list[float], best: int) -> None:
    assert argmax(row) == best


@pytest.mark.parametrize(
    ("drafts", "tokens"),
    [
        pytest.param([7, 8, 9, 10], [7, 8, 9, 10, 11], id="all-kept"),
        pytest.param([7, 8, 9, 0], [7, 8, 9, 10], id="last-replaced"),
        pytest.param([0, 8, 9, 10], [7], id="first-replaced"),
        pytest.param([7, -1, 9, 10], [7, 8], id="void"),
    ],
)
def test_walk(drafts: list[int], tokens: list[int]) -> None:
    assert walk([7, 8, 9, 10, 11], drafts) == tokens


@pytest.mark.parametrize("depth", DEPTHS)
def test_patterns(depth: int) -> None:
    """Every subset of kept drafts once, and every place of a first void one."""
    found = pairs.patterns(depth)
    assert len(found) == len(set(found)) == 2**depth + depth
    assert all(len(pattern) == depth for pattern in found)
    assert [p.index("void") for p in found if "void" in p] == list(range(depth))


@pytest.mark.parametrize("vocab", VOCABS)
def test_rows_are_what_they_claim(vocab: int) -> None:
    rows = pairs.logits(vocab)
    tops = {name: np.flatnonzero(row == row.max()).tolist() for name, row in rows.items()}
    assert tops["tie-within-a-tile"] == [7, 20]
    across = tops["tie-across-tiles"]
    assert across == [vocab // 2, vocab - 1]
    for tile in pairs.TILES:
        assert vocab <= tile or across[0] // tile < across[1] // tile
        assert vocab <= tile or {tile - 1, tile} <= set(tops["tie-at-tile-borders"])
    assert len(tops["all-equal"]) == vocab
    assert len(tops["masked"]) == np.isfinite(rows["masked"]).sum() == 2
    assert np.signbit(rows["signed-zeros"][tops["signed-zeros"]]).tolist() == [True, False, True]
    assert np.isfinite(rows["one-finite"]).sum() == 1
    assert tops["softmax-tie"] == [vocab // 2]
    judges = {judge.id: judge for judge in pairs.judges(vocab)}
    low, high = np.float32(0.1), rows["softmax-tie"][vocab // 2]
    assert (high.view(np.int32) - low.view(np.int32), high > low) == (1, True)
    probs = judges["softmax-tie/softmax"].probs
    assert probs[vocab // 4] == probs[vocab // 2] == probs.max()
    assert (judges["softmax-tie/one-hot"].best, judges["softmax-tie/softmax"].best) == (vocab // 2, vocab // 4)
    for judge in judges.values():
        assert judge.best != judge.rival
        assert (
            judge.id.startswith(("bell", "one-finite"))
            or not (judge.id.endswith("softmax"))
            or (judge.probs[judge.best] == judge.probs[judge.rival])
        )
    assert reference.quantise(np.stack([judge.probs for judge in judges.values()])).valid.all()


@pytest.mark.parametrize("vocab", VOCABS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_row_is_met_at_every_length(vocab: int, depth: int) -> None:
    rounds = Rounds(vocab, depth)
    met = {(int(rounds.rows[at, length - 1]), int(length)) for at, length in enumerate(rounds.lengths)}
    places = len(rounds.judges)
    assert {row for row, _ in met} == set(range(places))
    assert vocab > pairs.WIDE or len(met) == places * (depth + 1)


def test_the_reference_equals_the_expectation() -> None:
    found = pairs.observe(Reference(), False)
    assert (found.id, differences(found.values, pairs.expect(False))) == ("pairs", [])
    assert found.values["pairs"] == [found.compared]
    assert found.compared > 5000


def test_a_gpu_meets_a_models_vocabulary() -> None:
    assert pairs.vocabularies(True) == (*VOCABS, MODEL)


def test_the_interpreter_equals_the_expectation() -> None:
    """The narrowest vocabulary whole."""
    kernels = backends.start(Backend.INTERPRETER)
    assert differences(pairs.observe(kernels, False, (33,)).values, pairs.expect(False, (33,))) == []


@pytest.mark.parametrize("path", PATHS)
def test_the_interpreter_in_a_slice_of_wide_rounds(path: str) -> None:
    """Five verification tiles, the last of one token; every row is in the slice."""
    rounds = Rounds(4097, 4)
    some = slice(None, None, 3)
    rounds.rows, rounds.drafts = rounds.rows[some], rounds.drafts[some]
    assert set(rounds.rows.ravel().tolist()) == set(range(len(rounds.judges)))
    verified = rounds.verify(backends.start(Backend.INTERPRETER), path)
    assert (verified.tokens == rounds.tokens[some]).all()
    assert (verified.num_sampled == rounds.lengths[some]).all()


@pytest.mark.soak
@pytest.mark.parametrize("vocab", VOCABS[1:])
def test_the_interpreter_equals_the_expectation_everywhere(vocab: int) -> None:
    kernels = backends.start(Backend.INTERPRETER)
    assert differences(pairs.observe(kernels, False, (vocab,)).values, pairs.expect(False, (vocab,))) == []


class Wrong(Reference):
    """The reference with one field of one answer changed."""

    def __init__(self, field: str) -> None:
        self.field = field

    def propose(self, *arguments: Any) -> reference.Proposal:
        """See Arithmetic."""
        made = reference.propose(arguments[0], *arguments[2:])
        if self.field in made._fields:
            getattr(made, self.field)[(2,) * getattr(made, self.field).ndim] += 1
        return made

    def verify(self, *arguments: Any) -> reference.Verification:
        """See Arithmetic."""
        made = reference.verify(*arguments)
        if self.field in made._fields:
            getattr(made, self.field)[-1, ...] += 1
        return made


@pytest.mark.parametrize("field", ["token", "ids", "tickets", "tokens", "num_sampled"])
def test_one_wrong_field_is_seen(field: str) -> None:
    found = differences(pairs.observe(Wrong(field), False, (33,)).values, pairs.expect(False, (33,)))
    assert found[0] == f"mismatches[0] is {2 if field in ('token', 'ids', 'tickets') else 4}, must be 0"


def test_tickets_of_a_carrier_are_arbitrary() -> None:
    """None, too many, and negative: each would change a sampled round."""
    seen: dict[str, Any] = {}

    class Seeing(Reference):
        def verify(self, *arguments: Any) -> reference.Verification:
            """See Arithmetic."""
            seen[str(arguments[3] is None)] = arguments
            return reference.verify(*arguments)

    for path in PATHS:
        Rounds(33, 4).verify(Seeing(), path)
    tickets = seen["False"][3]
    assert (tickets == 0).any()
    assert (tickets < 0).any()
    assert (tickets > 1 << 24).any()
    assert seen["True"][2] is None


def test_excluded_rate() -> None:
    """(1 - rate)^n = delta; the rule of three is its limit at delta 0.05."""
    assert excluded_rate(1, 0.25) == 0.75
    assert excluded_rate(0) == 1.0
    assert (1 - excluded_rate(6930)) ** 6930 == pytest.approx(1e-5, rel=1e-9)  # 6930 * 2^-53 / 1e-3 is below 1e-9
    assert excluded_rate(10_000, 0.05) == pytest.approx(3.0 / 10_000, rel=2e-3)  # ln 20 = 2.9957
    for n, delta in ((-1, 0.5), (10, 0.0), (10, 1.0)):
        with pytest.raises(ValueError, match="want n >= 0 and delta between 0 and 1"):
            excluded_rate(n, delta)
