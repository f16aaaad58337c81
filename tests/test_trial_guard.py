"""Samplers that break the contract in this process: INVALID, by the name of what they did, and nothing else falls."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from one_thread import one_thread
from planted_runs import POISON, REQUESTS, SMALL, Planted, after, judged, right, round_of, verified

from pp3 import Batch, Emission, Report, qualify
from pp3.harness.trial import launches
from pp3.harness.verdict import Verdict

Run = Callable[[Batch], Any]


@pytest.fixture(autouse=True)
def _one_batch_and_one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So that a breach comes once; threads that spin on a shared machine cost more than they bring."""
    monkeypatch.setattr(launches, "LEAST_ROWS", 1 << 20)
    with one_thread():
        yield


def with_tokens(**fields: Any) -> Callable[[Batch, Emission], Emission]:
    """An emission with fields made from it."""

    def change(batch: Batch, e: Emission) -> Emission:
        made = {"tokens": e.tokens, "num_sampled": e.num_sampled} | {k: f(e) for k, f in fields.items()}
        return Emission(**made)

    return change


def half_written(batch: Batch) -> torch.Tensor:
    """A kernel that skips the last row."""
    out = torch.empty(len(batch), dtype=torch.int64)
    out[:-1] = right(batch)[:-1]
    return out


def put(tensor: torch.Tensor, place: Any, value: Any) -> torch.Tensor:
    """A copy with one entry changed."""
    tensor = tensor.clone()
    tensor[place] = value
    return tensor


PLAIN: dict[str, tuple[Run, str]] = {
    "raises": (lambda b: 1 // 0, r"raised ZeroDivisionError at test_trial_guard.py:\d+: "),
    "raises deep in torch": (
        lambda b: b.logits @ b.logits,
        r"raised RuntimeError at test_trial_guard.py:\d+: mat1 and",
    ),
    "asks for what is not there": (lambda b: b.logit, "raised AttributeError .* a batch has no 'logit'; did you mean"),
    "exits": (lambda b: exit(3), r"called sys.exit\(3\) at "),
    "returns nothing": (lambda b: None, "returned NoneType; want tokens"),
    "returns a list": (lambda b: right(b).tolist(), "returned list; want tokens"),
    "returns a number": (lambda b: 7, "returned int; want tokens"),
    "returns one row too few": (
        lambda b: right(b)[:-1],
        r"tokens is \[5999, 1\]; want \[6000, 1\]|tokens is \[\d+, 1\]",
    ),
    "returns two columns": (lambda b: right(b)[:, None].repeat(1, 2), r"tokens is \[\d+, 2\]; want \[\d+, 1\]"),
    "returns the rows": (lambda b: b.logits, "tokens is float32; want integers"),
    "returns floats": (lambda b: right(b).double(), "tokens is float64; want integers"),
    "returns NaN": (lambda b: right(b) * float("nan"), "tokens is float32; want integers"),
    "returns truths": (lambda b: right(b) > 0, "tokens is bool; want integers"),
    "returns complex": (lambda b: right(b) * 1j, "tokens is complex64; want integers"),
    "returns NumPy floats": (lambda b: right(b).numpy() / 2, "tokens is float64; want integers"),
    "returns NumPy objects": (lambda b: right(b).numpy().astype(object), "tokens is object; want integers"),
    "returns a scalar": (lambda b: torch.tensor(3), r"tokens is \[\]; want"),
    "returns from another device": (lambda b: right(b).to("meta"), "tokens is on meta; want cpu"),
    "returns sparse": (lambda b: right(b)[:, None].to_sparse(), "tokens is torch.sparse_coo; want a dense"),
    "returns nested": (lambda b: torch.nested.nested_tensor([right(b)]), "left what cannot be read: raised "),
    "emits the vocabulary": (lambda b: put(right(b), 5, 63), r"^\S+: 1 tokens or drafts outside the vocabulary"),
    "emits -1": (lambda b: put(right(b), 5, -1), r"^\S+: 1 tokens or drafts outside the vocabulary"),
    "emits 2^62": (lambda b: right(b) * 0 + (1 << 62), "00 tokens or drafts outside the vocabulary"),
    "leaves rows unwritten": (half_written, r"^\S+: 1 tokens or drafts outside the vocabulary"),
    "returns what nobody wrote": (lambda b: torch.empty(len(b), dtype=torch.int32), "00 tokens or drafts outside"),
    "returns a view of it": (lambda b: torch.empty(len(b), 4, dtype=torch.int64)[:, 1], "00 tokens or drafts outside"),
    "returns new_empty": (lambda b: right(b).new_empty(len(b)), "00 tokens or drafts outside"),
    "returns empty_like": (lambda b: torch.empty_like(right(b)), "00 tokens or drafts outside"),
    "grows its buffer": (lambda b: torch.zeros(1, dtype=torch.int64).resize_(len(b)), "99 tokens or drafts outside"),
    "casts what nobody wrote": (lambda b: torch.empty(len(b)).long(), "00 tokens or drafts outside"),
    "scales its logits": (after(lambda b: b.logits.mul_(2)), "changed its input logits"),
    "overwrites one logit": (after(lambda b: b.logits[-1:, -1:].fill_(3)), "changed its input logits"),
    "writes NaN": (after(lambda b: b.logits[0].fill_(float("nan"))), "changed its input logits"),
    "overwrites through NumPy": (after(lambda b: b.logits.numpy().fill(0)), "changed its input logits"),
    "resizes its logits": (after(lambda b: b.logits.resize_(3, 3)), "changed its input logits"),
    "overwrites probs": (after(lambda b: b.probs.zero_()), "changed its input probs"),
    "overwrites temperature": (after(lambda b: b.temperature.fill_(1)), "changed its input temperature"),
    "counts its seeds on": (after(lambda b: b.seeds.add_(1)), "changed its input seeds"),
    "counts its positions on": (after(lambda b: b.pos.add_(1)), "changed its input pos"),
    "sorts its slots": (after(lambda b: b.slots.copy_(b.slots.sort()[0])), "changed its input slots"),
    "rounds its coins": (after(lambda b: b.final_coins.round_()), "changed its input final_coins"),
    "renumbers its requests": (after(lambda b: b.requests.__setitem__(0, 9)), "raised ValueError .*read-only"),
    "rewrites the carriers": (after(lambda b: b.target.tables.logits.fill(0)), "raised ValueError .*read-only"),
}
VERIFIER: dict[str, tuple[Run, str]] = {
    "returns tokens alone": (lambda b: round_of(b).tokens, r"returned no num_sampled; want \[\d+\] integers"),
    "returns three": (lambda b: (1, 2, 3), "returned tuple; want tokens"),
    "returns lists": (verified(lambda b, e: (e.tokens.tolist(), e.num_sampled)), "tokens is a list; want a tensor"),
    "lacks the bonus column": (verified(lambda b, e: (e.tokens[:, :-1], e.num_sampled)), r"tokens is \[\d+, 4\]; want"),
    "returns lengths as a column": (
        verified(with_tokens(num_sampled=lambda e: e.num_sampled[:, None])),
        r"num_sampled is \[\d+, 1\]; want \[\d+\]",
    ),
    "returns float lengths": (
        verified(with_tokens(num_sampled=lambda e: e.num_sampled.float())),
        "num_sampled is float32",
    ),
    "emits none": (
        verified(with_tokens(num_sampled=lambda e: put(e.num_sampled, 3, 0))),
        r"^\S+: 1 num_sampled outside 1 to depth",
    ),
    "emits too many": (
        verified(with_tokens(num_sampled=lambda e: put(e.num_sampled, 3, 6))),
        r"^\S+: 1 num_sampled outside",
    ),
    "emits fewer than none": (
        verified(with_tokens(num_sampled=lambda e: put(e.num_sampled, 3, -POISON))),
        r"^\S+: 1 num_sampled outside",
    ),
    "counts what it never wrote": (
        verified(with_tokens(num_sampled=lambda e: put(e.num_sampled, slice(None), e.tokens.shape[1]))),
        "kept tokens that are not the draft|outside the vocabulary",
    ),
    "leaves lengths unwritten": (
        verified(with_tokens(num_sampled=lambda e: torch.empty_like(e.num_sampled))),
        "00 num_sampled outside 1 to depth",
    ),
    "leaves tokens unwritten": (
        verified(with_tokens(tokens=lambda e: torch.empty_like(e.tokens))),
        "outside the vocabulary",
    ),
    "echoes another draft": (
        verified(with_tokens(tokens=lambda e: put(e.tokens, (slice(None), 0), (e.tokens[:, 0] + 1) % 3))),
        "kept tokens that are not the draft that was verified",
    ),
    "reports a failed row": (
        verified(with_tokens(status=lambda e: put(e.num_sampled * 0, 3, 7))),
        r"^\S+: 1 rows with a status that is not 0",
    ),
    "reports a strange status": (verified(with_tokens(status=lambda e: e.tokens)), r"status is \[\d+, 5\]; want"),
    "overwrites its drafts": (verified(lambda b, e: (b.draft_ids.zero_(), e)[1]), "changed its input draft_ids"),
    "voids its drafts": (verified(lambda b, e: (b.draft_ids[:1].fill_(-1), e)[1]), "changed its input draft_ids"),
    "subtracts in place": (
        verified(lambda b, e: (b.target_probs[:, :1].sub_(1), e)[1]),
        "changed its input target_probs",
    ),
    "clamps in place": (verified(lambda b, e: (b.draft_probs.clamp_(max=0.01), e)[1]), "changed its input draft_probs"),
    "scales draft logits": (verified(lambda b, e: (b.draft_logits.div_(2), e)[1]), "changed its input draft_logits"),
    "scales scaled logits": (
        verified(lambda b, e: (b.scaled_draft_logits.div_(2), e)[1]),
        "changed its input scaled_draft_logits",
    ),
    "scales target logits": (verified(lambda b, e: (b.target_logits.div_(2), e)[1]), "changed its input target_logits"),
    "uses its coins up": (verified(lambda b, e: (b.coins.zero_(), e)[1]), "changed its input coins"),
    "rewrites given": (verified(lambda b, e: (b.given.__setitem__(0, 0), e)[1]), "raised ValueError .*read-only"),
    "rewrites the tensor given": (verified(lambda b, e: (b.tensors.given.fill_(0), e)[1]), "changed its input given"),
}


@pytest.mark.parametrize(("does", "reason"), PLAIN.values(), ids=PLAIN)
def test_a_plain_sampler(does: Run, reason: str) -> None:
    check(judged("plain", does), reason, SMALL)


def test_a_default_device_that_is_left_behind_changes_nothing() -> None:
    """Whatever the harness makes has its device named."""
    try:
        report = judged("plain", after(lambda b: torch.set_default_device("meta")))
    finally:
        torch.set_default_device("cpu")
    assert (report.verdict, report.reasons) == (Verdict.PASS, [])
    assert report.sentence == judged("plain", right).sentence


@pytest.mark.parametrize(("does", "reason"), VERIFIER.values(), ids=VERIFIER)
def test_a_verifier(does: Run, reason: str) -> None:
    check(judged("verifier", does), reason, ("near", "shared-noise"))


def check(report: Report, reason: str, targets: tuple[str, ...]) -> None:
    """INVALID for this reason, said of a target by its name."""
    assert report.verdict is Verdict.INVALID, str(report)
    assert not report.passed
    broken = [said for said in report.reasons if re.search(reason, said)]
    assert broken, report.reasons
    assert broken[0].partition(":")[0] in targets
    assert report.sentence.startswith("INVALID: planted on a CPU broke the sampler contract on 2 targets")


def pipeline(**change: Any) -> Run:
    """Drafts, then verification; fields of the emission changed."""

    def run(batch: Batch) -> Emission:
        drafts: list[torch.Tensor] = []
        for j in range(batch.depth):
            law = batch.draft_probs_after(j, drafts[-1] if drafts else None)
            drafts.append(torch.multinomial(law, 1, generator=batch.generator)[:, 0])
        proposed = torch.stack(drafts, dim=1)
        tokens = torch.full((len(batch), batch.depth + 1), -1)
        tokens[:, 0] = torch.multinomial(batch.target_probs_after(proposed)[:, 0], 1, generator=batch.generator)[:, 0]
        made = {"tokens": tokens, "num_sampled": torch.ones(len(batch), dtype=torch.int64), "drafts": proposed}
        return Emission(**made | {key: make(proposed) for key, make in change.items()})

    return run


@pytest.mark.parametrize(
    ("kind", "does", "reason"),
    [
        ("pipeline", pipeline(drafts=lambda d: None), r"returned no drafts; want \[\d+, 4\] integers"),
        ("pipeline", pipeline(drafts=lambda d: d[:, :1]), r"drafts is \[\d+, 1\]; want \[\d+, 4\]"),
        ("pipeline", pipeline(drafts=lambda d: d.float()), "drafts is float32"),
        ("pipeline", pipeline(drafts=lambda d: d + 100), "tokens or drafts outside the vocabulary"),
        ("pipeline", pipeline(proposed=lambda d: d[:1]), r"proposed is \[1, 4\]"),
        ("pipeline", pipeline(proposed=lambda d: d - 1), "tokens or drafts outside the vocabulary"),
        ("proposal", lambda b: None, "returned NoneType"),
        ("proposal", lambda b: pipeline()(b).drafts[:, 1:], r"drafts is \[\d+, 3\]; want \[\d+, 4\]"),
        ("proposal", lambda b: Emission(tokens=pipeline()(b).drafts), "returned no drafts"),
        ("proposal", lambda b: pipeline()(b).drafts - 1, "tokens or drafts outside the vocabulary"),
        ("proposal", lambda b: b.draft_ids, "raised ValueError .* these drafts are the sampler's own"),
    ],
)
def test_a_sampler_that_drafts(kind: str, does: Run, reason: str) -> None:
    check(judged(kind, does), reason, ("near", "shared-noise"))


def test_a_reset_that_raises() -> None:
    class Stuck(Planted):
        def reset(self) -> None:
            raise OSError("no state")

    report = qualify(Stuck("plain", right), targets=SMALL, requests=REQUESTS, device="cpu")
    check(report, r"^rows-of-63: reset\(\) raised OSError at test_trial_guard.py:\d+: no state$", SMALL)


def test_one_broken_target_does_not_break_the_next() -> None:
    """It is named; the other one is judged, and its failure found."""

    def run(batch: Batch) -> torch.Tensor:
        if batch.vocab == 12:
            raise KeyError("twelve")
        return torch.zeros(len(batch), dtype=torch.int64)

    report = judged("plain", run)
    assert report.verdict is Verdict.INVALID
    assert report.reasons[0].startswith("rows-of-12: raised KeyError at ")
    assert any(reason.startswith("rows-of-63, case plain-odd (no filter), drawn tokens: ") for reason in report.reasons)
    assert not any(reason.startswith("rows-of-12, case") for reason in report.reasons)


def test_a_break_in_a_later_batch_is_one_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "LEAST_ROWS", 64)
    calls: list[int] = []

    def run(batch: Batch) -> Any:
        calls.append(len(batch))
        if len(calls) == 3:
            raise RuntimeError("the third")
        return right(batch)

    report = qualify(Planted("plain", run), targets=["rows-of-12"], requests=20_000, device="cpu")
    assert report.verdict is Verdict.INVALID
    assert "the third" in report.reasons[0]
    assert report.requests == sum(calls[:2])
