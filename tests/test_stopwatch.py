"""Timings: integers in the order measured, of the steps that a round consists of, and nothing else changes by them."""

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import campaign as campaigns
from pp3.harness import canonical, run, stopwatch
from pp3.harness.backends import Backend
from pp3.harness.errors import ReceiptError
from pp3.harness.evidence import receipt
from pp3.harness.evidence.shapes import check_shape
from pp3.harness.evidence.verify import verify
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers import kernels as kernel_sampler
from pp3.harness.samplers.kernels import KernelSampler
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.kernels import proposal, reference, verifier
from pp3.targets import build

SEED = Seed(bytes(range(32)))
SMALL = {"targets": ["disjoint", "context"], "requests": 400, "paired": 20, "depths": [4, 5], "batch_sizes": [2]}


class Ticking:
    """Steps that take a known time on a clock of their own."""

    def __init__(self) -> None:
        self.now = 0
        self.order: list[str] = []

    def clock(self) -> int:
        """Nanoseconds."""
        return self.now

    def steps(self, batch: Any) -> dict[str, Callable[[], object]]:
        """One of 3 ns, one that takes 1 ns more each time, one too short for the clock."""
        return {"three": lambda: self._take("three", 3), "more": self._more, "none": lambda: self._take("none", 0)}

    def _more(self) -> None:
        self._take("more", 1 + self.order.count("more"))

    def _take(self, name: str, spent: int) -> None:
        self.order.append(name)
        self.now += spent


def test_samples_stand_in_the_order_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are dealt in turn, the first of each is not counted, and no sample is 0."""
    ticking = Ticking()
    monkeypatch.setattr(time, "perf_counter_ns", ticking.clock)
    batch = sampled_batch(build("disjoint"), 4, 2, SEED, 0, 6)
    rows = stopwatch.measure(ticking, [batch], False)
    n = stopwatch.SAMPLES
    assert [row["id"] for row in rows] == [f"disjoint/depth-4/rows-6/{name}" for name in ("three", "more", "none")]
    assert [row["unit"] for row in rows] == ["ns"] * 3
    assert [row["samples"] for row in rows] == [[3] * n, list(range(2, n + 2)), [1] * n]
    assert ticking.order == ["three", "more", "none"] * (n + 1)


STEPS = {"proposal": (4, 0), "verify": (0, 1), "round": (4, 1)}  # launches of each kind at depth 4


@pytest.mark.parametrize(("name", "launches"), STEPS.items(), ids=STEPS)
def test_a_step_is_what_it_is_called(name: str, launches: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the kernels and of the reference: a proposal a position, one verification."""
    calls = {"propose": 0, "verify": 0}

    def counted(module: Any, attribute: str, what: str) -> None:
        real = getattr(module, attribute)

        def call(*arguments: Any, **named: Any) -> Any:
            calls[what] += 1
            return real(*arguments, **named)

        monkeypatch.setattr(module, attribute, call)

    counted(proposal, "propose", "propose")
    counted(verifier, "verify", "verify")
    counted(reference, "propose_rows", "propose")
    counted(reference, "verify_rows", "verify")
    batch = sampled_batch(build("context"), 4, 3, SEED, 0, 3)
    for sampler in (KernelSampler("cpu"), ReferenceSampler()):
        steps: dict[str, Callable[[], object]] = sampler.steps(batch)
        assert list(steps) == list(STEPS)
        calls.update(propose=0, verify=0)
        steps[name]()
        assert tuple(calls.values()) == launches


def test_a_round_of_the_kernels_is_the_round_that_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps leave in their buffers what `run` emits."""
    batch, found, real = sampled_batch(build("context"), 4, 3, SEED, 0, 3), [], kernel_sampler._verify

    def verify(batch: Any, carriers: Any, at: Any) -> None:
        real(batch, carriers, at)
        found.append(at.emission())

    monkeypatch.setattr(kernel_sampler, "_verify", verify)
    KernelSampler("cpu").steps(batch)["verify"]()
    counted = KernelSampler("cpu").run(batch)
    for field in ("status", "tokens", "num_sampled", "proposed", "drafts"):
        assert (getattr(found[0], field) == getattr(counted, field)).all(), field


def test_nothing_but_timings_is_changed_by_timing(measure: Any) -> None:
    """Every count is made before, and stays."""
    campaign = campaigns.of_document(SMALL, "test")
    measured = measure(campaign, SEED)
    measured.timings = []
    before = copy.deepcopy(measured)
    run._time(campaign, SEED, ReferenceSampler(), measured, 8, Backend.REFERENCE)
    ids = [row["id"] for row in measured.timings]
    assert ids == [f"{name}/depth-5/rows-8/{step}" for name in ("disjoint", "context") for step in STEPS]
    assert {len(row["samples"]) for row in measured.timings} == {stopwatch.SAMPLES}
    assert all(type(one) is int and one > 0 for row in measured.timings for one in row["samples"])
    before.timings, before.seconds = measured.timings, measured.seconds
    assert measured == before


def test_a_receipt_holds_timings_or_none(receipt_of: Callable[..., Path], tmp_path: Path) -> None:
    """Those of older receipts lack them, and verify."""
    path = receipt_of(campaigns.of_document(SMALL, "test"), tmp_path)
    statement = canonical.decode(path.read_bytes())
    assert [row["unit"] for row in statement["predicate"]["timings"]] == ["ns"] * 6
    assert verify(path, path.read_bytes()).ok
    del statement["predicate"]["timings"]
    older = receipt.write(statement, tmp_path / "older")
    assert verify(older, older.read_bytes()).ok


REFUSED: dict[str, tuple[Any, str]] = {
    "a time of nothing": ({"samples": [5, 0]}, "`int` >= 1"),
    "no sample": ({"samples": []}, "length >= 1"),
    "another unit": ({"unit": "ms"}, "Invalid enum value 'ms'"),
    "a time as text": ({"samples": ["5"]}, "Expected `int`, got `str`"),
    "the machine": ({"host": "a"}, "unknown field `host`"),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_row_is_refused(change: dict[str, Any], reason: str, real_receipt: Path) -> None:
    """By the shape."""
    statement = canonical.decode(real_receipt.read_bytes())
    statement["predicate"]["timings"][0] |= change
    with pytest.raises(ReceiptError, match=reason):
        check_shape(statement)
