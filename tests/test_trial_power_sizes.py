"""What is right passes on several counters, rules are told apart, and a size that is said is the size there is."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from one_thread import one_thread
from planted_samplers import BLATANT, Block, Changed, OneHot, SampleMatch, Verifier, found, logits_by, warm

from pp3 import Batch, Description, Emission, qualify
from pp3.harness.samplers.torch_controls import ExponentialRace, Multinomial, StandardRejection
from pp3.harness.samplers.torch_filters import Filters, of_probs
from pp3.harness.trial import launches
from pp3.harness.verdict import Verdict
from pp3.targets import pairs

COUNTERS = (1, 2)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several a law, so that what is left from one shows; and one thread, since spinning ones starve each other."""
    monkeypatch.setitem(launches.ROWS, "cpu", BLATANT // 4)
    with one_thread():
        yield


def test_equal_laws_as_probabilities_reject_nothing() -> None:
    """Exactly: a single rejection is impossible, and said to be."""

    class Strict(StandardRejection):
        def run(self, batch: Batch) -> Emission:
            moved = batch.target_probs.clone()
            moved[..., 1] += moved[..., 0] * 0.05
            moved[..., 0] *= 0.95
            return super().run(Changed(batch, target_probs=moved))  # type: ignore[arg-type]  # likewise

    report = qualify(Strict(), requests=BLATANT, device="cpu")
    assert report.verdict is Verdict.FAIL
    for said in (
        r"equal, numbers of kept drafts: \d+ of 8,000 have probability 0: [0-3] kept \(",
        r"equal: \d+ events that the law cannot reach",
    ):
        assert any(re.match(said, reason) for reason in report.reasons), str(report)


@pytest.mark.parametrize("bug", ["unclamped", "ratio alone", "stops at once", "unscaled residual"])
def test_a_bug_of_block_verification(bug: str) -> None:
    found(qualify(Block(bug), device="cpu"), r"^whole, whole rounds: ")


RIGHT: dict[str, Any] = {
    "multinomial": Multinomial(),
    "exponential race": ExponentialRace(),
    "standard rejection": StandardRejection(),
    "standard rejection of logits": Verifier(),
    "pipeline": Verifier(kind="pipeline"),
    "one-hot": OneHot(),
    "sample-match": SampleMatch(),
    "block": Block(),
}


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("sampler", RIGHT.values(), ids=RIGHT)
def test_what_is_right_passes(sampler: Any, counter: int) -> None:
    report = qualify(sampler, device="cpu", counter=counter)
    assert report.verdict is Verdict.PASS, str(report)
    assert report.reasons == []
    assert 0 < report.resolution < 0.06


@pytest.mark.parametrize("sampler", [Filters(), of_probs()], ids=["logits", "probs"])
def test_right_filters_pass(sampler: Filters) -> None:
    targets = ["rows-of-12", "rows-of-10", "rows-of-8"]
    report = qualify(sampler, targets=targets, requests=4_000, device="cpu")
    assert report.verdict is Verdict.PASS, str(report)


def test_rules_are_not_taken_for_one_another() -> None:
    """Each declared as the other one: their accepted lengths differ."""

    class Standard(StandardRejection):
        def describe(self) -> Description:
            return replace(super().describe(), rule="block")

    class AsStandard(Block):
        def describe(self) -> Description:
            return replace(super().describe(), rule="standard", void="unsupported")

    for sampler in (Standard(), AsStandard()):
        found(qualify(sampler, targets=["whole"], device="cpu"), "^whole, ")


def total_variation(one: Any, other: Any) -> float:
    """Of two rows of weights."""
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def test_the_size_that_is_said_is_the_size_there_is() -> None:
    """Against the exact distance, within what noise adds: the square root of cells over events."""
    near = pairs.build("near").weights
    cases = [
        (
            Verifier({"bonus row": lambda s, row, depth: row.clamp(max=depth - 1)}),
            "near, bonus tokens, all drafts kept",
            total_variation(near[4], near[3]),
        ),
        (
            logits_by(lambda x, b: x / warm(b)),
            "near, tokens emitted at position 0",
            total_variation(near[0] ** (1 / 0.7), near[0]),
        ),
        (
            logits_by(lambda x, b: torch.cat([x[:, 1:2], x[:, 1:]], 1)),
            "near, tokens emitted at position 0",
            total_variation(near[1], near[0]),
        ),
    ]
    for planted, place, size in cases:
        report = qualify(planted, targets=["near"], device="cpu")
        (said,) = [reason for reason in report.reasons if reason.startswith(f"{place}: ")]
        told, seen = map(float, re.findall(r"off by about (\S+) in total variation, (\S+) would be seen", said)[0])
        assert abs(told - size) < 0.02, said
        assert seen < size


@pytest.mark.parametrize("counter", COUNTERS)
def test_a_promised_size_is_found_and_a_fifth_of_it_is_not_claimed(counter: int) -> None:
    """In the direction that shows least: half of the tokens a little too often, in equal proportion."""

    @dataclass
    class Dose:
        size: float  # in total variation

        def describe(self) -> Description:
            return Description(name="dose", kind="plain", filters=("temperature",))

        def run(self, batch: Batch) -> torch.Tensor:
            law = torch.softmax(batch.logits.double() / batch.temperature[:, None], dim=-1)
            less = (law.cumsum(dim=1) - law) < 0.5
            share = (law * less).sum(dim=1, keepdim=True)
            law = law * torch.where(less, 1 - self.size / share, 1 + self.size / (1 - share))
            return torch.multinomial(law, 1, generator=batch.generator)

    targets = ["rows-of-12"]
    promised = qualify(Dose(0.0), targets=targets, device="cpu", counter=counter).resolution
    assert 0.01 < promised < 0.05
    for size, verdict in ((promised, Verdict.FAIL), (promised / 5, Verdict.PASS)):
        report = qualify(Dose(size), targets=targets, device="cpu", counter=counter)
        assert report.verdict is verdict, str(report)
