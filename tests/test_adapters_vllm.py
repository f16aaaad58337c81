"""vLLM's adapters: which there are, what they need, and what they hand over."""

import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm_samplers import batch_for

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.image import cache, pins
from pp3.harness.samplers import registry, vllm_classic, vllm_v2
from pp3.harness.samplers.contract import WANTED, Description, Kind, Randomness
from pp3.harness.samplers.vllm_entries import VLLM
from pp3.harness.samplers.vllm_gumbel import Pipeline
from pp3.harness.samplers.vllm_image import Function

LAST = "0.33.0"


# What an adapter may call


def fake(function: Callable[..., Any]) -> Any:
    """A loaded part with one entry."""
    return SimpleNamespace(version="9.9.9", entries={"f": function}, modules={})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(lambda a, b, strange=None: 0, "takes strange, which this adapter does not know", id="unknown"),
        pytest.param(lambda a, b, left: 0, "needs left, which this adapter leaves out", id="left but needed"),
    ],
)
def test_a_function_with_other_parameters_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(CampaignError, match=message):
        Function(fake(function), "f", given=("a", "b"), left=("left",))


def test_an_argument_that_the_function_lacks_is_refused() -> None:
    called = Function(fake(lambda a, left=1: (a, left)), "f", given=("a", "newer"), left=("left",))
    assert called(a=3) == (3, 1)
    with pytest.raises(CampaignError, match=r"f of vllm 9\.9\.9 has no parameter newer"):
        called(a=3, newer=True)


def test_the_interpreter_does_not_complain_of_masked_lanes() -> None:
    called = Function(fake(lambda: np.float32(-np.inf) - np.float32(-np.inf)), "f", given=())
    assert np.isnan(called())


# The catalogue


def test_every_version_and_every_adapter_is_listed() -> None:
    names = [entry.name for entry in VLLM]
    assert len(set(names)) == len(names)
    assert {entry.image for entry in VLLM} == set(pins.PINS)
    assert all(entry.name.endswith(f"-{entry.image}") for entry in VLLM)
    assert set(names) <= set(registry.everything())


def test_an_entry_says_that_its_image_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And that it is there once fetched, or installed; nothing of vllm is imported to find out."""
    entry = registry.find(f"vllm-v2-{LAST}")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    assert registry.missing(entry, gpu=False).endswith(f"make image VERSION={LAST}")
    (tmp_path / LAST).mkdir()
    assert registry.missing(entry, gpu=False) == ""
    (tmp_path / LAST).rmdir()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"vllm": f"{LAST}+cu130"}[name])
    assert registry.missing(entry, gpu=False) == ""
    assert not [name for name in sys.modules if name == "vllm" or name.startswith("vllm.")]


def test_without_its_image_an_adapter_is_unavailable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    with pytest.raises(PP3Error, match=f"make image VERSION={LAST}") as raised:
        registry.load(registry.find(f"vllm-v2-{LAST}"))
    assert raised.value.exit_code == Exit.UNAVAILABLE


def test_the_image_that_is_named_is_the_one_that_is_read(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="no such file or folder"):
        registry.load(registry.find(f"vllm-v2-{LAST}"), tmp_path / "none.whl")


def test_an_image_for_a_sampler_that_takes_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="torch-multinomial takes none"):
        registry.load(registry.find("torch-multinomial"), tmp_path)


# What is handed over


class Recorder:
    """Stands in for a function of vLLM and keeps what it was called with."""

    def __init__(self, parameters: tuple[str, ...], returns: Callable[..., Any]) -> None:
        self.parameters, self.returns, self.calls = frozenset(parameters), returns, list[dict[str, Any]]()

    def __call__(self, **arguments: Any) -> Any:
        self.calls.append({k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()})
        return self.returns(**arguments)


def rounds_of_one(draft_sampled: torch.Tensor, cu_num_logits: torch.Tensor, **rest: Any) -> Any:
    n = len(cu_num_logits) - 1
    return torch.zeros(n, len(draft_sampled) // n, dtype=torch.int64), torch.ones(n, dtype=torch.int32)


def describing(kind: Kind) -> Description:
    return Description(name="x", kind=kind, draft_carrier="logits", randomness=Randomness.KEYED, greedy=True)


def test_a_verifier_is_given_rows_and_state_by_slot() -> None:
    """Row i at pos + i; per-request state at its slot and NaN elsewhere, in slots that are permuted."""
    batch = batch_for(describing(Kind.VERIFIER), "near")
    recorder = Recorder(vllm_v2.GIVEN, rounds_of_one)
    adapter = object.__new__(vllm_v2.Verifier)
    adapter.mode, adapter.verifier = vllm_v2.Mode.STANDARD, recorder  # type: ignore[assignment]  # a stand-in
    adapter.run(batch)
    [said] = recorder.calls
    n, depth = len(batch), batch.depth
    assert said["cu_num_logits"].tolist() == [row * (depth + 1) for row in range(n + 1)]
    assert said["expanded_local_pos"].tolist() == [*range(depth + 1)] * n
    assert said["pos"].tolist() == [batch.pos.tolist()[0] + i for i in range(depth + 1)] * n
    assert said["idx_mapping"].tolist() == batch.slots.tolist() != [*range(n)]
    assert said["expanded_idx_mapping"].tolist() == [slot for slot in batch.slots.tolist() for _ in range(depth + 1)]
    assert said["draft_sampled"].reshape(n, depth + 1)[:, 1:].equal(batch.draft_ids)
    assert said["target_logits"].reshape(n, depth + 1, -1).equal(batch.target_logits)
    for name, rows in (("temperature", batch.temperature), ("seed", batch.seeds), ("draft_logits", batch.draft_logits)):
        assert said[name][batch.slots].equal(rows), name
    empty = torch.ones(batch.num_slots, dtype=torch.bool).index_fill(0, batch.slots, False)
    assert said["temperature"][empty].isnan().all()
    assert said["draft_logits"][empty].isnan().all()
    assert all(said[name].dtype == torch.int32 for name in ("idx_mapping", "cu_num_logits", "draft_sampled"))


@pytest.mark.parametrize("salted", [True, False])
def test_drafts_are_drawn_at_the_verifiers_positions(salted: bool) -> None:
    """Draft j at the position of row j, its logits kept in column j, its context the draft before it."""
    batch = batch_for(describing(Kind.PIPELINE), "context")
    assert (batch.given == WANTED).all()
    sampler = Recorder(("is_drafting",), lambda logits, **rest: logits.argmin(dim=1))
    verifier = Recorder(vllm_v2.GIVEN, rounds_of_one)
    pipeline = object.__new__(Pipeline)
    pipeline.salted, pipeline.sampler, pipeline.verifier = salted, sampler, verifier  # type: ignore[assignment]
    emission = pipeline.run(batch)
    [judged] = verifier.calls
    assert [call["pos"].tolist() for call in sampler.calls] == judged["pos"].reshape(len(batch), -1)[:, :-1].T.tolist()
    assert [int(call["logits_cache_col"]) for call in sampler.calls] == [*range(batch.depth)]
    assert [call["is_drafting"] for call in sampler.calls] == [salted] * batch.depth
    assert all(call["apply_temperature"] for call in sampler.calls)
    assert emission.drafts.equal(judged["draft_sampled"].reshape(len(batch), -1)[:, 1:])
    for j in range(1, batch.depth):
        assert sampler.calls[j]["logits"].equal(batch.draft_logits_after(j, emission.proposed[:, j - 1]))


def test_a_request_is_given_rows_for_its_own_drafts() -> None:
    """And one more; a draft that it does not have is NaN in its slot, and its rows reach nobody."""
    batch = batch_for(replace(describing(Kind.VERIFIER), ragged=True), "ragged", 7)
    recorder = Recorder(vllm_v2.GIVEN, rounds_of_one)
    adapter = object.__new__(vllm_v2.Verifier)
    adapter.mode, adapter.verifier = vllm_v2.Mode.STANDARD, recorder  # type: ignore[assignment]  # a stand-in
    adapter.run(batch)
    [said] = recorder.calls
    counts = batch.num_drafts.tolist()
    assert counts == [4, 3, 1, 0, 4, 3, 1]
    assert said["cu_num_logits"].tolist() == [0, 5, 9, 11, 12, 17, 21, 23]
    assert said["expanded_local_pos"].tolist() == [i for count in counts for i in range(count + 1)]
    assert said["pos"].tolist() == [int(batch.pos[0]) + i for count in counts for i in range(count + 1)]
    slots = batch.slots.tolist()
    expanded = [slot for slot, count in zip(slots, counts, strict=True) for _ in range(count + 1)]
    assert said["expanded_idx_mapping"].tolist() == expanded
    begin = 0
    for row, count in enumerate(counts):
        end = begin + count + 1
        assert said["draft_sampled"][begin + 1 : end].equal(batch.draft_ids[row, :count])
        assert said["target_logits"][begin:end].equal(batch.target_logits[row, : count + 1])
        state = said["draft_logits"][slots[row]]
        assert state[:count].equal(batch.draft_logits[row, :count])
        assert state[count:].isnan().all()
        begin = end


def test_the_classic_verifier_is_given_each_request_its_own_drafts() -> None:
    batch = batch_for(replace(describing(Kind.VERIFIER), draft_carrier="probs", ragged=True), "ragged", 7)
    recorder = Recorder(vllm_classic.GIVEN, lambda **rest: torch.zeros(7, 5, dtype=torch.int32))
    adapter = object.__new__(vllm_classic.Classic)
    adapter.mode, adapter.verifier = vllm_classic.Mode.PROBS, recorder  # type: ignore[assignment]  # a stand-in
    adapter.run(batch)
    [said] = recorder.calls
    counts = [4, 3, 1, 0, 4, 3, 1]
    assert said["num_draft_tokens"] == counts
    assert said["cu_num_draft_tokens"].tolist() == [4, 7, 8, 8, 12, 15, 16]
    assert said["cu_num_draft_tokens"].dtype is torch.int32
    cut = [slice(None, count) for count in counts]
    for name, rows in (
        ("draft_token_ids", batch.draft_ids),
        ("draft_probs", batch.draft_probs),
        ("target_logits", batch.target_logits),
    ):
        assert said[name].equal(torch.cat([rows[i, one] for i, one in enumerate(cut)])), name
    assert said["bonus_token_ids"].shape == (7, 1)
