"""Planted bugs of plain samplers, a few lines each: found at their target, place and size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from one_thread import one_thread
from planted_samplers import BLATANT, IMPOSSIBLE, OFF, Changed, found

from pp3 import Batch, Description, qualify
from pp3.harness.samplers.torch_controls import Multinomial
from pp3.harness.samplers.torch_filters import Filters
from pp3.harness.trial import launches


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several a law, so that what is left from one shows; and one thread, since spinning ones starve each other."""
    monkeypatch.setitem(launches.ROWS, "cpu", BLATANT // 4)
    with one_thread():
        yield


@dataclass
class Plain:
    """Filters over a batch that a bug changed."""

    change: Callable[[Batch], dict[str, Any]]

    def describe(self) -> Description:
        """See the contract."""
        return replace(Filters().describe(), name="planted")

    def run(self, batch: Batch) -> Any:
        """One token a row."""
        return Filters().run(Changed(batch, **self.change(batch)))  # type: ignore[arg-type]  # likewise


def off_by_one(batch: Batch, step: int) -> dict[str, Any]:
    """k + step where there is a k."""
    assert batch.top_k is not None
    return {"top_k": torch.where(batch.top_k > 0, (batch.top_k + step).clamp(min=1), 0)}


CASE = r"^rows-of-12, case {} \({}\), drawn tokens: "
PLAINS: dict[str, tuple[Plain, str]] = {
    "top-k one too many": (Plain(lambda b: off_by_one(b, 1)), CASE.format("k-1", "top_k 1") + IMPOSSIBLE),
    "top-k one too few": (
        Plain(lambda b: off_by_one(b, -1)),
        CASE.format("k-5", "top_k 5") + rf"{OFF}token \d+ came 0, the law says 0\.1169",
    ),
    "top-k of the row before": (
        Plain(lambda b: {"top_k": b.top_k.roll(1)}),
        CASE.format("k-1", "top_k 1") + IMPOSSIBLE,
    ),
    "no top-k": (Plain(lambda b: {"top_k": None}), CASE.format("k-1", "top_k 1") + IMPOSSIBLE),
    "no top-p": (Plain(lambda b: {"top_p": None}), CASE.format("p-tiny", r"top_p 9\.5\S+") + IMPOSSIBLE),
    "top-p 0.05 too large": (
        Plain(lambda b: {"top_p": (b.top_p + 0.05).clamp(max=1)}),
        CASE.format(r"\S+", ".*top_p 0.*") + IMPOSSIBLE,
    ),
    "no min-p": (Plain(lambda b: {"min_p": None}), CASE.format("min-p-1", "min_p 1") + IMPOSSIBLE),
    "min-p of the first row": (
        Plain(lambda b: {"min_p": b.min_p[:1].expand_as(b.min_p)}),
        CASE.format("min-p-1", "min_p 1") + IMPOSSIBLE,
    ),
    "temperature twice": (
        Plain(lambda b: {"temperature": b.temperature**2}),
        CASE.format("hot-p", r"temperature 2, top_p 0\.7") + IMPOSSIBLE,
    ),
    "no temperature": (
        Plain(lambda b: {"temperature": (b.temperature > 0).float()}),
        CASE.format("cool-p", r"temperature 0\.5, top_p 0\.7") + IMPOSSIBLE,
    ),
    "temperature of the first row": (
        Plain(lambda b: {"temperature": b.temperature[:1].expand_as(b.temperature)}),
        CASE.format("greedy", "temperature 0") + IMPOSSIBLE,
    ),
    "greedy rows sampled": (
        Plain(lambda b: {"temperature": torch.where(b.temperature > 0, b.temperature, 1.0)}),
        CASE.format("greedy", "temperature 0") + IMPOSSIBLE,
    ),
    "logits of the row before": (
        Plain(lambda b: {"logits": b.logits.roll(1, 0)}),
        CASE.format("(greedy|k-1|p-tiny|min-p-1)", ".*") + r"3,99\d of 4,000 have probability 0",
    ),
    "logits in halves": (
        Plain(lambda b: {"logits": (b.logits * 2).round() / 2}),
        CASE.format("min-p-1", "min_p 1") + IMPOSSIBLE,
    ),
    "the last token is never drawn": (
        Plain(lambda b: {"logits": torch.cat([b.logits[:, :-1], torch.full_like(b.logits[:, -1:], -torch.inf)], 1)}),
        CASE.format(r"\S+", ".*") + r".*",
    ),
}
TEMPERED: dict[str, tuple[Callable[[Batch], torch.Tensor], str]] = {
    "logits by slot": (lambda b: b.logits[b.slots.argsort()] / b.temperature[:, None], "drawn tokens: off by about 0"),
    "logits of the row before": (
        lambda b: b.logits.roll(1, 0) / b.temperature[:, None],
        "drawn tokens: off by about 0",
    ),
    "temperature twice": (lambda b: b.logits / b.temperature[:, None] ** 2, r"temperature \S+\), drawn tokens: off by"),
    "temperature of the row before": (
        lambda b: b.logits / b.temperature.roll(1)[:, None],
        r"temperature \S+\), drawn tokens: off by",
    ),
    "temperature added": (lambda b: b.logits + b.temperature[:, None], r"temperature \S+\), drawn tokens: off by"),
    "logits in halves": (lambda b: (b.logits * 2).round() / 2 / b.temperature[:, None], "drawn tokens: off by"),
}


@pytest.mark.parametrize(("planted", "reason"), PLAINS.values(), ids=PLAINS)
def test_a_bug_of_a_plain_sampler(planted: Plain, reason: str) -> None:
    found(qualify(planted, targets=["rows-of-12"], requests=4_000, device="cpu"), reason)


@pytest.mark.parametrize(("logits", "reason"), TEMPERED.values(), ids=TEMPERED)
def test_a_bug_of_a_sampler_that_only_heats(logits: Callable[[Batch], torch.Tensor], reason: str) -> None:
    """Without filters, too, every row is told from its neighbour."""

    class Heats(Multinomial):
        def run(self, batch: Batch) -> torch.Tensor:
            return torch.multinomial(torch.softmax(logits(batch), -1), 1, generator=batch.generator)

    found(qualify(Heats(), requests=4_000, device="cpu"), reason)
