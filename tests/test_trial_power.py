"""Planted bugs of verifiers and pipelines, a few lines each: found at their target, place and size."""

from collections.abc import Iterator

import pytest
import torch
from one_thread import one_thread
from planted_samplers import BLATANT, IMPOSSIBLE, OFF, Verifier, found, logits_by, warm

from pp3 import Batch, qualify
from pp3.harness.trial import launches


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several a law, so that what is left from one shows; and one thread, since spinning ones starve each other."""
    monkeypatch.setitem(launches.ROWS, "cpu", BLATANT // 4)
    with one_thread():
        yield


def stale(self: Verifier, value: torch.Tensor, batch: Batch) -> torch.Tensor:
    """What the batch before had."""
    before = self.seen.get("kept")
    self.seen["kept"] = value.clone()
    return before if before is not None and before.shape == value.shape else value


def reset(self: Verifier, generator: torch.Generator, batch: Batch) -> torch.Generator:
    """A generator that begins anew, with the noise that the drafts had."""
    return torch.Generator().manual_seed(generator.initial_seed())


# The bug, and what is said first of it: target, law, position and size.
REPLACED = r"tokens that replace a rejected draft at position \d"
VERIFIERS: dict[str, tuple[Verifier, str]] = {
    "residual from P instead of (P - Q)+": (
        Verifier({"residual": lambda s, r, p, q: p}),
        rf"^(peaked|void), {REPLACED}: {IMPOSSIBLE}",
    ),
    "residual |P - Q|": (
        Verifier({"residual": lambda s, r, p, q: (p - q).abs()}),
        rf"^\S+, {REPLACED}: {IMPOSSIBLE}",
    ),
    "residual of 1e-4 where it is none": (
        Verifier({"residual": lambda s, r, p, q: r + 1e-4}),
        rf"^\S+, {REPLACED}: {IMPOSSIBLE}",
    ),
    "residual from P where it is below Q": (
        Verifier({"residual": lambda s, r, p, q: torch.where(q > p, 0, p)}),
        rf"^shared-noise, tokens that replace a rejected draft at position 0: {OFF}token 1 came 0\.6\d+, the law says",
    ),
    "bonus from the row of the last draft": (
        Verifier({"bonus row": lambda s, row, depth: row.clamp(max=depth - 1)}),
        r"^greedy, bonus tokens, all drafts kept: (\d+) of \1 have probability 0: token 10 \(\1 times\)",
    ),
    "bonus from the first row": (
        Verifier({"bonus row": lambda s, row, depth: torch.where(row == depth, 0, row)}, declared={"greedy": False}),
        rf"^\S+, bonus tokens, all drafts kept: {OFF}token \d+ came",
    ),
    "requests swapped": (
        logits_by(lambda x, b: x.roll(1, 0)),
        r"^mixed(-greedy)?, tokens that replace a rejected draft at position 0: (7,99|15,99)\d of (7,99|15,99)\d have ",
    ),
    "draft laws of another request": (
        Verifier({"proposal": lambda s, x, b: x.roll(1, 0)}),
        rf"^context, {REPLACED}: {IMPOSSIBLE}",
    ),
    "draft laws of the batch before": (
        Verifier({"proposal": stale}),
        rf"^context, {REPLACED}: {IMPOSSIBLE}",
    ),
    "rows in the order of their slots": (
        logits_by(lambda x, b: x[b.slots.argsort()]),
        rf"^mixed, {REPLACED}: {IMPOSSIBLE}",
    ),
    "rows scattered to slots and gathered without them": (
        logits_by(lambda x, b: x.new_zeros(b.num_slots, *x.shape[1:]).index_copy(0, b.slots, x)[: len(b)]),
        r"^\S+, tokens .* have probability 0",
    ),
    "positions swapped": (
        logits_by(lambda x, b: torch.cat([x[:, :-1].flip(1), x[:, -1:]], 1)),
        r"^\S+, (tokens|numbers)",
    ),
    "one temperature for the batch": (
        Verifier({"draft temperature": lambda s, x, b: x[:1].expand_as(x)}),
        rf"^mixed, {REPLACED}: {IMPOSSIBLE}",
    ),
    "draft temperature twice": (
        Verifier({"draft temperature": lambda s, x, b: x * x}),
        rf"^near, {REPLACED}: {IMPOSSIBLE}",
    ),
    "draft temperature left out": (
        Verifier({"draft temperature": lambda s, x, b: torch.ones_like(x)}),
        rf"^context, {REPLACED}: {IMPOSSIBLE}",
    ),
    "target temperature twice": (
        logits_by(lambda x, b: x / warm(b)),
        rf"^context, {REPLACED}: {IMPOSSIBLE}",
    ),
    "acceptance <= with a coin of 0": (
        Verifier(
            {"coins": lambda s, c, b: (c - 2e-3).clamp(min=0), "kept": lambda s, k, c, p, q: c * q <= p},
            declared={"greedy": False},
        ),
        rf"^far, tokens emitted at position \d: {IMPOSSIBLE}",
    ),
    "acceptance of Q/P": (
        Verifier({"kept": lambda s, k, c, p, q: c * p < q}, declared={"greedy": False}),
        rf"^far, tokens emitted at position \d: {IMPOSSIBLE}",
    ),
    "everything kept": (
        Verifier({"kept": lambda s, k, c, p, q: torch.ones_like(k)}, declared={"greedy": False}),
        rf"^far, tokens emitted at position \d: {IMPOSSIBLE}",
    ),
    "nothing kept": (
        Verifier({"kept": lambda s, k, c, p, q: torch.zeros_like(k)}),
        rf"^(context|mixed|whole), numbers of kept drafts: {OFF}0 kept came 1, the law says 0\.0",
    ),
    "one coin for all positions": (
        Verifier({"coins": lambda s, c, b: c[:, :1].expand_as(c)}),
        rf"^(peaked|far), numbers of kept drafts: {OFF}\d kept came 0\.\d+, the law says 0\.\d+",
    ),
    "the round goes on after a rejection": (
        Verifier({"length": lambda s, length, kept: kept.sum(dim=1)}),
        r"^void: [\d,]+ kept tokens that are not the draft that was verified",
    ),
    "a round is one short": (
        Verifier({"length": lambda s, length, kept: (length - 1).clamp(min=0)}),
        r"^equal, numbers of kept drafts: (8,000) of \1 have probability 0: 3 kept \(\1 times\)",
    ),
    "void drafts replaced from the residual": (
        Verifier(declared={"void": "residual"}),
        rf"^void, tokens for an invalidated draft at position 0: {IMPOSSIBLE}",
    ),
    "void drafts replaced from the proposal": (
        Verifier({"law": lambda s, law, b, length, void: void_from_proposal(law, b, length)}),
        rf"^void, tokens for an invalidated draft at position 0: {OFF}token \d+ came",
    ),
    "drafts of the batch before": (
        Verifier({"drafts": stale}),
        r"^near: [\d,]+ kept tokens that are not the draft that was verified",
    ),
    "greedy rows sampled": (
        Verifier({"target": lambda s, x, b: torch.softmax(b.target_logits.double(), -1)}),
        r"^greedy, .*: [\d,]+ of [\d,]+ have probability 0",
    ),
    "every row greedy where one is": (
        Verifier({"target": lambda s, x, b: x if (b.temperature > 0).all() else one_hot_of(x)}),
        rf"^mixed-greedy, {REPLACED}: {IMPOSSIBLE}",
    ),
    "every row sampled where one is": (
        Verifier(
            {"target": lambda s, x, b: x if (b.temperature == 0).all() else torch.softmax(b.target_logits.double(), -1)}
        ),
        r"^mixed-greedy, .*: [\d,]+ of [\d,]+ have probability 0",
    ),
    "laws in 64ths": (
        Verifier({"target": lambda s, x, b: (x * 64).round() / 64}, declared={"greedy": False}),
        rf"^\S+, {REPLACED}: {IMPOSSIBLE}",
    ),
}


def one_hot_of(x: torch.Tensor) -> torch.Tensor:
    """A point mass at each maximum."""
    return torch.nn.functional.one_hot(x.argmax(-1), x.shape[-1]).double()


def void_from_proposal(law: torch.Tensor, batch: Batch, length: torch.Tensor) -> torch.Tensor:
    """The draft law where a draft is void."""
    rows, at = torch.arange(len(law)), length.clamp(max=batch.depth - 1)
    void = (batch.draft_ids[rows, at] < 0) & (length < batch.depth)
    return torch.where(void[:, None], torch.softmax(batch.draft_logits[rows, at].double(), -1), law)


PIPELINES: dict[str, tuple[Verifier, str]] = {
    "draft noise shared with the residual through a generator reset": (
        Verifier({"last generator": reset}, kind="pipeline"),
        rf"^(whole|shared-noise), (whole rounds|bonus tokens, all drafts kept): {OFF}",
    ),
    "drafts of another temperature": (
        Verifier({"draft law": lambda s, law, b: law**0.8}, kind="pipeline"),
        rf"^\S+, (drafts|tokens emitted) at position \d: {OFF}",
    ),
    "drafts rounded to 1/64": (
        Verifier({"draft law": lambda s, law, b: (law * 64).round()}, kind="pipeline"),
        rf"^peaked, drafts at position \d: {OFF}.* came 0, the law says",
    ),
    "drafts judged by another position's law": (
        Verifier({"proposal": lambda s, q, b: q.roll(1, 1)}, kind="pipeline"),
        rf"^\S+, {REPLACED}: {IMPOSSIBLE}",
    ),
    "target rows of the batch before": (
        Verifier({"target logits": stale}, kind="pipeline"),
        r"^\S+, tokens .*(off by|probability 0)",
    ),
}


@pytest.mark.parametrize(("planted", "reason"), VERIFIERS.values(), ids=VERIFIERS)
def test_a_bug_of_a_verifier(planted: Verifier, reason: str) -> None:
    found(qualify(planted, requests=BLATANT, device="cpu"), reason)


@pytest.mark.parametrize(("planted", "reason"), PIPELINES.values(), ids=PIPELINES)
def test_a_bug_of_a_pipeline(planted: Verifier, reason: str) -> None:
    found(qualify(planted, requests=BLATANT, device="cpu"), reason)
