"""vLLM's adapters through the pinned files in the interpreter: a few requests of each, and each version's fault."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from vllm_samplers import REQUESTS, SEED, batch_for, problem_of, sampler_of

from pp3 import qualify
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.image import cache, pins
from pp3.harness.samplers import registry, vllm_check, vllm_v2
from pp3.harness.samplers.contract import Batch, Kind, Rule, Void
from pp3.harness.samplers.vllm_entries import VLLM
from pp3.harness.tally import Tally
from pp3.harness.trial import guard
from pp3.harness.trial.run import batch_of
from pp3.harness.verdict import Verdict

HONEST = [entry.name for entry in VLLM if "negative control" not in entry.about]
KEYED = [name for name in HONEST if "-classic" not in name and "-topk-topp" not in name]
LAST = "0.33.0"


def read(emission: Any) -> list[list[int]]:
    """Only what may be read of the tokens."""
    rows = zip(emission.tokens.tolist(), emission.num_sampled.tolist(), strict=True)
    return [tokens[:length] for tokens, length in rows]


# A few requests of each


@pytest.mark.parametrize("name", HONEST)
def test_a_few_requests_emit_nothing_impossible(name: str) -> None:
    """Through the guard: the contract is kept, inputs are left alone, no outcome of zero probability."""
    sampler = sampler_of(name)
    who = sampler.describe()
    assert who.version == registry.find(name).image
    assert dict(who.files).items() <= pins.PINS[who.version].files.items()
    targets = {Kind.PLAIN: ["rows-of-12"]}.get(Kind(who.kind), ["shared-noise" if who.rule == Rule.BLOCK else "far"])
    both = who.kind != Kind.PLAIN and who.rule != Rule.BLOCK
    for target in [*targets, *(["greedy"] if who.kind != Kind.PLAIN else []), *(["ragged"] if both else [])]:
        problem = problem_of(who, target)
        batch = batch_of(problem, who, SEED, 0, REQUESTS * problem.share, "cpu")
        tally = Tally(problem.target, problem.depth, problem.cells)
        tally.add(batch, guard.run(sampler, batch, Kind(who.kind)))
        assert not any(tally.breaches.values()), tally.breaches
        assert tally.strays() == []
    assert sampler.loaded.intruders() == []


@pytest.mark.parametrize("name", KEYED)
def test_a_request_does_not_depend_on_its_company(name: str) -> None:
    """Alone or with others, in any order and any slot: the same tokens."""
    sampler = sampler_of(name)
    who = sampler.describe()
    if who.kind == Kind.PLAIN:
        batch = batch_for(who, "rows-of-12")
        whole = sampler.run(batch).tolist()
        part = sampler.run(batch.take(np.array([4, 1]), 2)).tolist()
    else:
        batch = batch_for(who, "whole")
        whole, part = read(sampler.run(batch)), read(sampler.run(batch.take(np.array([4, 1]), 2)))
    assert part == [whole[4], whole[1]]


@pytest.mark.parametrize("version", pins.PINS)
def test_an_invalidated_draft_ends_a_round(version: str) -> None:
    for name in ("v2", "v2-pipeline", "v2-one-hot", "classic", "classic-one-hot"):
        sampler = sampler_of(f"vllm-{name}-{version}")
        who = sampler.describe()
        batch = batch_for(who, "void", 4)  # each pattern once
        ends = [row.tolist().index(-1) + 1 for row in batch.given]
        assert all(length <= end for length, end in zip(sampler.run(batch).num_sampled.tolist(), ends, strict=True))


@pytest.mark.parametrize("version", pins.PINS)
def test_the_two_verifiers_differ_at_an_invalidated_draft(version: str) -> None:
    """Target (1/2, 1/2), proposal (3/4, 1/4): the residual is always token 1, the full target is not."""
    for name, rule, tokens in (
        ("v2", Void.FULL_TARGET, {0, 1}),
        ("classic-residual", Void.RESIDUAL, {1}),
        ("classic-one-hot", Void.FULL_TARGET, {0, 1}),
    ):
        sampler = sampler_of(f"vllm-{name}-{version}")
        assert sampler.describe().void == rule
        batch = batch_for(sampler.describe(), "whole", 24)
        batch.tensors.draft_ids = torch.full((24, 2), -1, dtype=torch.int32)
        batch.tensors.target_logits = torch.tensor([0.5, 0.5, 0, 0]).log().expand(24, 3, 4).contiguous()
        batch.tensors.draft_probs = torch.tensor([0.75, 0.25, 0, 0]).expand(24, 2, 4).contiguous()
        batch.tensors.draft_logits = batch.draft_probs.log()
        emission = sampler.run(batch)
        assert emission.num_sampled.tolist() == [1] * 24
        assert set(emission.tokens[:, 0].tolist()) == tokens, name


@pytest.mark.parametrize("version", pins.PINS)
def test_a_batch_in_which_nobody_has_drafts(version: str) -> None:
    """Every request emits one token, of its first row."""
    for name in ("v2", "v2-pipeline", "v2-one-hot", "classic", "classic-one-hot"):
        sampler = sampler_of(f"vllm-{name}-{version}")
        who = sampler.describe()
        batch = batch_for(who, "ragged", 12).take(np.array([3, 7, 11]), 3)
        found = guard.run(sampler, batch, Kind(who.kind))
        assert found.num_sampled.tolist() == [1, 1, 1], name
        assert ((found.tokens[:, 0] >= 0) & (found.tokens[:, 0] < batch.vocab)).all()


# What must fail, does


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param("vllm-v2-raw-probs", "far", id="probabilities where logits belong"),
        pytest.param("vllm-v2-synthetic", "far", id="a fixed rate"),
        pytest.param("vllm-v2-fly", "greedy", id="rejections taken back"),
    ],
)
def test_a_negative_control_fails(name: str, target: str) -> None:
    report = qualify(sampler_of(f"{name}-{LAST}"), targets=[target], requests=40, device="cpu")
    assert report.verdict is Verdict.FAIL, str(report)


def test_rows_instead_of_slots_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is judged with the state of another, or of none."""
    sampler, right = sampler_of(f"vllm-v2-{LAST}"), vllm_v2.Slots.of

    def wrong(batch: Batch) -> vllm_v2.Slots:
        return replace(right(batch), index=torch.arange(len(batch), dtype=torch.int32))

    monkeypatch.setattr(vllm_v2.Slots, "of", wrong)
    report = qualify(sampler, targets=["far"], requests=40, device="cpu")
    assert report.verdict is Verdict.FAIL, str(report)


def test_a_version_without_a_salt_has_none_to_leave_out() -> None:
    sampler_of("vllm-v2-pipeline-0.28.0")
    with pytest.raises(CampaignError, match=r"vllm 0\.28\.0 has no salt"):
        registry.load(replace(registry.find("vllm-v2-unsalted-0.29.0"), image="0.28.0"))


# make vllm-check


@pytest.mark.parametrize(
    ("faulty", "mended", "fine"),
    [
        (Verdict.FAIL, Verdict.PASS, True),
        (Verdict.FAIL, Verdict.INCONCLUSIVE, True),
        (Verdict.FAIL, Verdict.FAIL, False),
        (Verdict.FAIL, Verdict.INVALID, False),
        (Verdict.PASS, Verdict.PASS, False),
        (Verdict.INCONCLUSIVE, Verdict.PASS, False),
    ],
)
def test_the_check_wants_one_fault(faulty: Verdict, mended: Verdict, fine: bool) -> None:
    wrong = vllm_check.judge({vllm_check.FAULTY: faulty, vllm_check.MENDED: mended})
    assert (wrong == "") is fine


def test_the_check_says_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    assert vllm_check.main() == Exit.UNAVAILABLE
    assert "make image VERSION=0.28.0" in capsys.readouterr().err


@pytest.mark.soak
def test_the_shared_noise_is_found_and_found_mended() -> None:
    for name in (vllm_check.FAULTY, vllm_check.MENDED):
        sampler_of(name)
    assert vllm_check.main() == Exit.OK
