"""The exponential: the hard patterns to 60 digits and by mpmath, the sweep in the interpreter, and planted faults."""

from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped] # it ships no types
import numpy as np
import numpy.typing as npt
import pytest
import torch

from pp3.harness.exact import exponential, suite
from pp3.harness.exact.enumeration import differences
from pp3.harness.exact.exponential import FIRST, HARD, LAST

Bits = npt.NDArray[np.uint32]
SHORT = 3000  # values of the shortened sweep, in chunks that do not divide it
PIECE = 1024


def interpreted(first: int, count: int) -> Bits:
    """The kernel's own device function over `count` patterns from `first`, on the CPU."""
    from pp3.kernels import exponential as kernel

    out = torch.empty(count, dtype=torch.float32)
    with np.errstate(all="ignore"):
        kernel.sweep[(-(-count // kernel.BLOCK),)](first, count, out, BLOCK=kernel.BLOCK)
    return np.asarray(out.numpy().view(np.uint32))


def by_mpmath(bits: int) -> int:
    """RN32(exp(y)) by 200 bits of mpmath: the nearest FP32 pattern, as a fraction."""
    y = float(np.array([bits], np.uint32).view(np.float32)[0])
    with mpmath.workprec(200):
        sign, mantissa, exponent, _ = mpmath.exp(mpmath.mpf(y))._mpf_
    value = (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** exponent
    near = int(np.array([float(value)], np.float32).view(np.uint32)[0])
    return min((near - 1, near, near + 1), key=lambda pattern: abs(number(pattern) - value))


def number(pattern: int) -> Fraction:
    """The rational of an FP32 pattern."""
    return Fraction(float(np.array([pattern], np.uint32).view(np.float32)[0]))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweep a few thousand patterns in the interpreter in place of a GPU."""
    monkeypatch.setattr(exponential, "FIRST", HARD[2] - SHORT // 2)
    monkeypatch.setattr(exponential, "LAST", HARD[2] - SHORT // 2 + SHORT - 1)
    monkeypatch.setattr(exponential, "CHUNK", PIECE)
    monkeypatch.setattr(exponential, "_sweep", interpreted)


def test_the_range_is_every_value_of_the_claim() -> None:
    first, last = np.array([FIRST, LAST], np.uint32).view(np.float32)
    assert (float(first), float(last), np.signbit(first)) == (0.0, -33.0, np.True_)
    assert LAST - FIRST + 1 == 1_107_558_401
    assert all(FIRST <= bits <= LAST for bits in HARD)


@pytest.mark.parametrize("bits", HARD, ids=hex)
def test_a_hard_pattern(bits: int) -> None:
    """By decimals, by mpmath, by the reference and by the kernel."""
    assert exponential.exact(bits) == by_mpmath(bits)
    assert exponential.rounded(np.array([bits], np.uint32)).tolist() == [by_mpmath(bits)]
    assert interpreted(bits, 1).tolist() == [by_mpmath(bits)]


@pytest.mark.parametrize("bits", HARD, ids=hex)
def test_a_hard_pattern_is_hard(bits: int) -> None:
    """Within 6 FP64 ulp of the midpoint of two FP32 values, and so that six of them matter."""
    y = float(np.array([bits], np.uint32).view(np.float32)[0])
    value = np.exp(y)
    pattern = exponential.exact(bits)
    middles = [float((number(pattern) + number(pattern + step)) / 2) for step in (-1, 1)]
    assert min(abs(value - middle) for middle in middles) <= 7 * np.spacing(value)


def test_known_answers() -> None:
    """exp(-0.0) is 1, exp(-33) is the last; both ends of the sweep."""
    assert exponential.exact(FIRST) == 0x3F800000
    assert exponential.exact(LAST) == by_mpmath(LAST)
    assert interpreted(FIRST, 1).tolist() == [0x3F800000]
    assert interpreted(LAST, 1).tolist() == [by_mpmath(LAST)]


def test_decimals_and_mpmath_agree(rng: np.random.Generator) -> None:
    """And with the FP64 exponential rounded once, anywhere in the range."""
    some = rng.integers(FIRST, LAST + 1, 300, np.uint32)
    exact = [exponential.exact(int(bits)) for bits in some]
    assert exact == [by_mpmath(int(bits)) for bits in some]
    assert exact == exponential.rounded(some).tolist() == [int(interpreted(int(bits), 1)[0]) for bits in some]


@pytest.mark.parametrize("first", [FIRST, *(bits - 2000 for bits in HARD), LAST - 4095], ids=hex)
def test_the_kernel_on_a_slice(first: int) -> None:
    """4,096 neighbours; the last block is not full."""
    assert (interpreted(first, 4000) == exponential.rounded(np.arange(first, first + 4000, dtype=np.uint32))).all()


def test_the_reference_shows_the_hard_ones() -> None:
    found = exponential.observe_reference()
    assert found.values == {"hard": [exponential.exact(bits) for bits in HARD]}
    assert differences(found.values, suite.expected("exponential", gpu=False)) == []
    assert (found.id, found.compared) == ("exponential", len(HARD))


@pytest.mark.usefixtures("short")
def test_a_short_sweep_counts_every_value() -> None:
    found = exponential.observe_cuda()
    assert differences(found.values, exponential.expect()) == []
    assert (found.compared, found.values["values"]) == (SHORT, [SHORT])


def spoil(at: int) -> Any:
    """The kernel with one pattern one step away."""

    def sweep(first: int, count: int) -> Bits:
        out = interpreted(first, count)
        if first <= at < first + count:
            out[at - first] += np.uint32(1)
        return out

    return sweep


def now_and_then(first: int, count: int) -> Bits:
    """The last bit wrong for every 997th value of a chunk."""
    y = np.arange(first, first + count, dtype=np.uint32).view(np.float32)
    up = np.nextafter(np.exp(y.astype(np.float64)).astype(np.float32), np.float32(2)).view(np.uint32)
    return np.where(np.arange(count) % 997 == 0, up, interpreted(first, count))


def truncated(first: int, count: int) -> Bits:
    """FP64 cut to FP32 instead of rounded."""
    y = np.arange(first, first + count, dtype=np.uint32).view(np.float32)
    value = np.exp(y.astype(np.float64))
    near = value.astype(np.float32)
    return np.where(near > value, np.nextafter(near, np.float32(0)), near).view(np.uint32)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("sweep", "count"),
    [
        pytest.param(spoil(HARD[2] - 1500), 1, id="the-first-value"),
        pytest.param(spoil(HARD[2] - 1500 + PIECE), 1, id="the-first-of-a-chunk"),
        pytest.param(spoil(HARD[2] + 1499), 1, id="the-last-value"),
        pytest.param(spoil(HARD[2]), 1, id="a-hard-value"),
        pytest.param(now_and_then, 5, id="an-ulp-now-and-then"),
        pytest.param(truncated, None, id="truncation"),
    ],
)
def test_a_planted_fault_is_counted(sweep: Any, count: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exponential, "_sweep", sweep)
    found = exponential.observe_cuda()
    assert differences(found.values, exponential.expect())
    different = found.values["different"][0]
    assert isinstance(different, int)
    assert different > 0 if count is None else different == count


@pytest.mark.parametrize("bits", HARD, ids=hex)
def test_an_error_of_7_ulp_shows_at_a_hard_pattern(bits: int) -> None:
    """In one of its two directions: so the four tell an exponential that is not as good as semantics section 2 asks."""
    value = np.exp(np.array([bits], np.uint32).view(np.float32).astype(np.float64))
    sloppy = [value + step * np.spacing(value) for step in (-7, 7)]
    patterns = {int(one.astype(np.float32).view(np.uint32)[0]) for one in sloppy}
    assert patterns != {exponential.exact(bits)}


def test_a_wrong_hard_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exponential, "rounded", lambda bits: truncated(int(bits[0]), 1))
    wrong = differences(exponential.observe_reference().values, suite.expected("exponential", gpu=False))
    assert wrong
    assert wrong[0].startswith("hard[")


@pytest.mark.gpu
def test_every_value_on_a_gpu() -> None:
    assert differences(exponential.observe_cuda().values, exponential.expect()) == []
