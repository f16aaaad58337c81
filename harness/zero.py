"""A zero of a function of one variable, by Brent's method (1973, chapter 4), as scipy.optimize.brentq has it: loading
scipy.optimize takes as long as judging a receipt."""

from collections.abc import Callable

MOST = 100  # steps; halving a bracket of doubles needs fewer


def brent(of: Callable[[float], float], low: float, high: float, xtol: float = 2e-12, rtol: float = 2.0**-50) -> float:
    """A zero between low and high, where the values have different signs. ValueError if they have not."""
    before, here = float(low), float(high)
    value_before, value = float(of(before)), float(of(here))
    if not value_before or not value:
        return here if value_before else before
    if (value_before > 0) == (value > 0):
        raise ValueError(f"the function is {value_before} at {low} and {value} at {high}; want different signs")
    across = value_across = step_before = step = 0.0
    for _ in range(MOST):
        if value_before and value and (value_before > 0) != (value > 0):
            across, value_across = before, value_before
            step_before = step = here - before
        if abs(value_across) < abs(value):
            before, here, across = here, across, here
            value_before, value, value_across = value, value_across, value
        delta = (xtol + rtol * abs(here)) / 2
        half = (across - here) / 2
        if not value or abs(half) < delta:
            return here
        if abs(step_before) > delta and abs(value) < abs(value_before):
            if before == across:
                attempt = -value * (here - before) / (value - value_before)
            else:
                slope = (value_before - value) / (before - here)
                slope_across = (value_across - value) / (across - here)
                scale = slope_across * slope * (value_across - value_before)
                attempt = -value * (value_across * slope_across - value_before * slope) / scale
            good = 2 * abs(attempt) < min(abs(step_before), 3 * abs(half) - delta)
            step_before, step = (step, attempt) if good else (half, half)
        else:
            step_before = step = half
        before, value_before = here, value
        here += step if abs(step) > delta else delta if half > 0 else -delta
        value = float(of(here))
    raise ValueError(f"no zero found within {MOST} steps")
