"""Brent's method: the same doubles as scipy.optimize.brentq, on what it is used for and on awkward functions."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, special

from pp3.harness.zero import brent

FUNCTIONS: dict[str, tuple[Callable[[float], float], float, float]] = {
    "a line": (lambda x: 3 * x - 1, -4, 9),
    "a zero at an end": (lambda x: x, 0, 5),
    "a zero at the other end": (lambda x: x - 5, 0, 5),
    "a cubic": (lambda x: x**3 - 2 * x - 5, 2, 30),
    "a jump": (lambda x: -1.0 if x < 0.1 else 2.0, -3, 50),
    "steep": (lambda x: math.expm1(40 * (x - 0.7)), -3, 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_scipy_has_it(name: str) -> None:
    of, low, high = FUNCTIONS[name]
    assert brent(of, low, high) == optimize.brentq(of, low, high, rtol=2.0**-50)


def test_noncentral_chi_square() -> None:
    for df in (1, 2, 31, 447, 5000):
        for alpha in (1e-8, 1e-5, 0.01):
            critical = float(special.chdtri(df, alpha))

            def missing(nc: float, critical: float = critical, df: int = df) -> float:
                return float(1 - special.chndtr(critical, df, nc) - 0.999)

            found = brent(missing, 1e-9, 1e5)
            assert found == optimize.brentq(missing, 1e-9, 1e5, rtol=2.0**-50)
            assert abs(missing(found)) < 1e-9


def test_the_same_sign_is_refused() -> None:
    with pytest.raises(ValueError, match="want different signs"):
        brent(lambda x: x * x + 1, -1, 1)
    with pytest.raises(ValueError, match="no zero found within 100 steps"):
        brent(lambda x: math.copysign(1.0, x - 1 / 3), -1e300, 1e300, xtol=0, rtol=0)


def test_the_default_tolerance_is_that_of_scipy() -> None:
    assert 4 * np.finfo(float).eps == 2.0**-50
