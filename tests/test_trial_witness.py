"""Faults that leave every law by itself as it should be: each is found by the check that is there for it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from one_thread import one_thread

from pp3 import Batch, Emission, Report, qualify
from pp3.harness.samplers.torch_controls import Multinomial, StandardRejection
from pp3.harness.trial import launches
from pp3.harness.verdict import Verdict

REQUESTS = 16_000
NAMED = re.compile(r"\((?:\S+/depth-\d+/)?([a-z-]+(?:/requests-\d+|/rows|/slots|/identities)?)\S*(?:: |\)$)")


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several a law; and one thread, since spinning ones starve each other."""
    monkeypatch.setitem(launches.ROWS, "cpu", REQUESTS // 8)
    with one_thread():
        yield


@dataclass
class Verifier(StandardRejection):
    """Standard rejection whose rounds are dealt to the requests in another way."""

    deal: Callable[[Batch, Emission], Emission]

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        return self.deal(batch, super().run(batch))


@dataclass
class Plain(Multinomial):
    """Draws from rows of probabilities, [n, V], by a way of its own."""

    draw: Callable[["Plain", Batch, torch.Tensor], torch.Tensor]
    seen: dict[str, Any] = field(default_factory=dict)

    def run(self, batch: Batch) -> torch.Tensor:
        """One token a row."""
        return self.draw(self, batch, torch.softmax(batch.logits.double() / batch.temperature[:, None], dim=-1))

    def reset(self) -> None:
        """Forget."""
        self.seen.clear()


def drawn(batch: Batch, law: torch.Tensor) -> torch.Tensor:
    """As it should be, [n]."""
    return torch.multinomial(law, 1, generator=batch.generator)[:, 0]


def ordered(column: int, length: int) -> Callable[[Batch, Emission], Emission]:
    """Of rounds of this length, the last tokens in the order of what stands in a column of the drafts."""

    def deal(batch: Batch, e: Emission) -> Emission:
        tokens, rows = e.tokens.clone(), torch.nonzero(e.num_sampled == length + 1)[:, 0]
        key = batch.draft_ids[rows, column]
        tokens[rows[key.argsort(stable=True)], length] = tokens[rows, length].sort().values
        return Emission(tokens=tokens, num_sampled=e.num_sampled)

    return deal


def neighbours_in_order(_: Plain, batch: Batch, law: torch.Tensor) -> torch.Tensor:
    """Of two requests the first never has the larger token: equal ones are as frequent as they should be there, and no
    longer among those at even and odd places."""
    tokens = drawn(batch, law)
    whole = len(tokens) // 2 * 2
    tokens[:whole] = tokens[:whole].reshape(-1, 2).sort(dim=1).values.reshape(-1)
    return tokens


def copied(lag: int, share: float) -> Callable[[Plain, Batch, torch.Tensor], torch.Tensor]:
    """Some requests have the token of the one so far before them."""

    def draw(_: Plain, batch: Batch, law: torch.Tensor) -> torch.Tensor:
        tokens = drawn(batch, law)
        again = torch.rand(len(tokens), generator=batch.generator) < share
        again[:lag] = False
        return torch.where(again, tokens.roll(lag), tokens)

    return draw


def left_in_slots(self: Plain, batch: Batch, law: torch.Tensor) -> torch.Tensor:
    """One token in five is what its slot had in the launch before."""
    tokens = drawn(batch, law)
    before = self.seen.get("slots")
    if before is not None and len(before) == batch.num_slots:
        left = before[batch.slots]
        again = (torch.rand(len(tokens), generator=batch.generator) < 0.2) & (left >= 0)
        tokens = torch.where(again, left, tokens)
    now = tokens.new_full((batch.num_slots,), -1)
    now[batch.slots] = tokens
    self.seen["slots"] = now
    return tokens


def left_in_rows(self: Plain, batch: Batch, law: torch.Tensor) -> torch.Tensor:
    """One token in five is what its row had in the launch before."""
    tokens = drawn(batch, law)
    before = self.seen.get("rows")
    if before is not None and len(before) == len(tokens):
        tokens = torch.where(torch.rand(len(tokens), generator=batch.generator) < 0.2, before, tokens)
    self.seen["rows"] = tokens
    return tokens


def a_hundred_again(_: Plain, batch: Batch, law: torch.Tensor) -> torch.Tensor:
    """A few rows of a launch are drawn twice, with the same noise: far apart, and too few to be seen otherwise."""
    tokens = drawn(batch, law)
    tokens[1203:1403] = tokens[204:404]
    return tokens


def stratified(_: Plain, batch: Batch, law: torch.Tensor) -> torch.Tensor:
    """Uniforms one in each n-th of the unit interval, in random order: counts are what they are expected to be."""
    n = len(law)
    order = torch.randperm(n, generator=batch.generator)
    u = (order + torch.rand(n, generator=batch.generator, dtype=torch.float64)) / n
    return torch.searchsorted(law.cumsum(dim=1), u[:, None]).clamp(max=law.shape[1] - 1)[:, 0]


def in_clusters(_: Plain, batch: Batch, law: torch.Tensor) -> torch.Tensor:
    """Every token for eight requests, which are then dealt anew: counts scatter by a factor of eight."""
    tokens = drawn(batch, law)[: -(-len(law) // 8)].repeat_interleave(8)[: len(law)]
    return tokens[torch.randperm(len(law), generator=batch.generator)]


def rare_ones_sevenfold(_: Plain, batch: Batch, law: torch.Tensor) -> torch.Tensor:
    """A token of which some five are expected."""
    at = int((law[0] - 5 / REQUESTS).abs().argmin())
    more = law.clone()
    more[:, at] *= 7
    return drawn(batch, more)


WITNESSES: dict[str, tuple[Any, str, str, set[str]]] = {
    # the sampler, its target, the check that must see it, and others that may
    "what replaces a draft follows the draft": (Verifier(ordered(0, 0)), "far", "recovery", {"pair"}),
    "what replaces a draft follows the token before": (Verifier(ordered(0, 1)), "far", "prefix", {"match"}),
    "neighbours in order": (Plain(neighbours_in_order), "rows-of-24", "pair/requests-1", {"match", "round-match"}),
    "the neighbour's token": (Plain(copied(1, 0.2)), "rows-of-24", "match/requests-1", {"pair", "fit"}),
    "the token of 32 before": (Plain(copied(32, 0.2)), "rows-of-24", "match/requests-32", {"fit"}),
    "the token of 128 before": (Plain(copied(128, 0.2)), "rows-of-24", "match/requests-128", {"fit"}),
    "what its slot had": (Plain(left_in_slots), "rows-of-24", "round-match/slots", {"fit"}),
    "what its row had": (Plain(left_in_rows), "rows-of-24", "round-match/rows", {"fit"}),
    "two hundred rows drawn twice": (Plain(a_hundred_again), "rows-of-24", "repeat", set()),
    "stratified": (Plain(stratified), "rows-of-1000", "fit", set()),
    "in clusters": (Plain(in_clusters), "rows-of-1000", "fit", {"token", "match", "rare-cell"}),
    "a rare token sevenfold": (Plain(rare_ones_sevenfold), "rows-of-1000", "rare-cell", set()),
}


def failed(report: Report) -> set[str]:
    """Checks that the reasons name, by event, with their distance where they have one."""
    return {name for reason in report.reasons for name in NAMED.findall(reason)[-1:]}


@pytest.mark.parametrize(("sampler", "target", "witness", "others"), WITNESSES.values(), ids=WITNESSES)
def test_each_is_seen_by_its_check(sampler: Any, target: str, witness: str, others: set[str]) -> None:
    """And by none that a law by itself decides."""
    report = qualify(sampler, targets=[target], requests=REQUESTS, device="cpu")
    assert report.verdict is Verdict.FAIL, str(report)
    found = failed(report)
    assert witness in found, str(report)
    beside = {name.partition("/")[0] for name in found - {witness}}
    assert beside <= others, str(report)


def test_the_samplers_below_the_faults_pass() -> None:
    """Nothing else of these classes is wrong."""
    for sampler, target in (
        (Verifier(lambda batch, e: e), "far"),
        (Plain(lambda self, batch, law: drawn(batch, law)), "rows-of-24"),
        (Plain(lambda self, batch, law: drawn(batch, law)), "rows-of-1000"),
    ):
        report = qualify(sampler, targets=[target], requests=REQUESTS, device="cpu")
        assert report.verdict is Verdict.PASS, str(report)
        assert np.isfinite(report.resolution)
