"""Planted faults: what a battery must reject, each by a named check, and what it must not reject.

A sampler is wrong in one step of correct.py (fault.py says what is noted of it); laws.py knows how large that is.
"""

from pp3.harness.faults import (
    acceptance,
    alone,
    contract,
    controls,
    doses,
    greedy,
    parameters,
    positions,
    precision,
    residual,
    rows,
    streams,
    support,
    truncation,
)
from pp3.harness.faults.correct import ENGINE
from pp3.harness.faults.fault import Control, Fault
from pp3.harness.samplers.contract import Kind

_CAUSES = (
    acceptance,
    residual,
    positions,
    rows,
    parameters,
    truncation,
    greedy,
    support,
    precision,
    streams,
    contract,
    doses,
    alone,
)
FAULTS: tuple[Fault, ...] = tuple(fault for cause in _CAUSES for fault in cause.FAULTS)
if ENGINE in list(Kind):
    FAULTS += acceptance.ENGINE_FAULTS
CONTROLS: tuple[Control, ...] = controls.CONTROLS
