"""Tails and quantiles of the distributions that checks use, from scipy.special: scipy.stats takes longer to load than a
receipt to verify. The same functions as scipy.stats calls, digit for digit (tests/test_tails.py).

Arguments are in the order of scipy.stats; numbers or arrays, with NumPy's rules for both.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pp3.harness.special import special


def chi2_sf(x: Any, df: Any) -> Any:
    """P(X > x), X chi-square."""
    return special.chdtrc(df, x)


def chi2_cdf(x: Any, df: Any) -> Any:
    """P(X <= x), X chi-square."""
    return special.chdtr(df, x)


def chi2_isf(p: Any, df: Any) -> Any:
    """The x that chi-square exceeds with probability p."""
    return special.chdtri(df, p)


def chi2_ppf(p: Any, df: Any) -> Any:
    """The x that chi-square does not exceed with probability p."""
    return 2 * special.gammaincinv(np.asarray(df) / 2, p)


def beta_ppf(p: Any, a: Any, b: Any) -> Any:
    """The x that a beta variable does not exceed with probability p."""
    return special.betaincinv(a, b, p)


def beta_isf(p: Any, a: Any, b: Any) -> Any:
    """The x that a beta variable exceeds with probability p."""
    return special.betainccinv(a, b, p)


def binom_sf(k: Any, n: Any, p: Any) -> Any:
    """P(X > k) of n trials of probability p, for whole k."""
    return _within(k, n, p, special.betainc, 1.0, 0.0)


def binom_cdf(k: Any, n: Any, p: Any) -> Any:
    """P(X <= k) of n trials of probability p, for whole k."""
    return _within(k, n, p, special.betaincc, 0.0, 1.0)


def binom_isf(q: float, n: Any, p: Any) -> Any:
    """The least whole k with P(X > k) <= q."""
    return _least(n, lambda k: binom_sf(k, n, p) <= q)


def binom_ppf(q: float, n: Any, p: Any) -> Any:
    """The least whole k with P(X <= k) >= q."""
    return _least(n, lambda k: binom_cdf(k, n, p) >= q)


def poisson_isf(q: float, mean: float) -> int:
    """The least whole k with P(X > k) <= q."""
    k = max(0, int(np.ceil(special.pdtrik(1 - q, mean))))
    return k - 1 if k and special.pdtr(k - 1, mean) >= 1 - q else k


def _within(k: Any, n: Any, p: Any, tail: Callable[..., Any], below: float, beyond: float) -> Any:
    """A tail of the binomial from the incomplete beta function, which has no k below 0 and none from n on."""
    k, n = np.asarray(k), np.asarray(n)
    inside = (k >= 0) & (k < n)
    found = tail(np.where(inside, k + 1, 1), np.where(inside, n - k, 1), p)
    return np.where(inside, found, np.where(k < 0, below, beyond))[()]


def _least(n: Any, enough: Callable[[Any], Any]) -> Any:
    """The least whole number from 0 to n that is enough, where n is and whatever lies above one that is."""
    low, high = np.zeros_like(np.asarray(n, np.int64)), np.asarray(n, np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        found = enough(middle)
        low, high = np.where(found, low, middle + 1), np.where(found, middle, high)
    return low[()]


def two_sided(hits: Any, events: Any, chance: float) -> Any:
    """Twice the smaller exact binomial tail, at most 1."""
    both = binom_sf(hits - 1, events, chance), binom_cdf(hits, events, chance)
    return np.minimum(1.0, 2 * np.minimum(*both))
