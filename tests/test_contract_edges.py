"""Inputs at the edge of a contract, each of which once crashed, passed or read out of bounds."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pp3.harness import campaign
from pp3.harness.cells import enumerate_cells
from pp3.harness.design import design
from pp3.harness.errors import CampaignError
from pp3.harness.oracle import Law
from pp3.harness.power import detectable_tv
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers import kernels as sampler_module
from pp3.harness.samplers.contract import Batch, Emission
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally
from pp3.kernels import proposal, reference, verifier
from pp3.targets import build

ROOT = Path(__file__).resolve().parents[1]


TTIR = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from pp3.kernels import rejection
k = rejection.walk_and_emit
p = dict.fromkeys(("mass_ptr", "best_ptr", "key_ptr", "round_ptr", "position_ptr"), "*i64") | {"probs_ptr": "*fp32"}
c = {"ROWS": 1, "COLUMNS": 8, "TILES": 16, "TILE": 1024, "K": 32, "CHUNK": 8}
sig = {n: "constexpr" if n in c else p.get(n, "*i32") if n.endswith("_ptr") else "i32" for n in k.arg_names}
src = ASTSource(fn=k, signature=sig, constexprs={(k.arg_names.index(n),): v for n, v in c.items()})
print(triton.compile(src, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8}).asm["ttir"])
"""


def test_strides_are_multiplied_in_64_bits(tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env |= {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TTIR], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.findall(r"arith\.muli .*_stride.* : i32.*", done.stdout) == []


@pytest.mark.parametrize("field", ["proposed", "drafts"])
def test_a_draft_out_of_range_is_a_breach_not_a_crash(field: str) -> None:
    target = build("context")
    batch = sampled_batch(target, 4, 4, Seed(bytes(32)), 0, 50)
    emission = ReferenceSampler().run(batch)
    array = getattr(emission, field).copy()
    array[3, 1] = target.vocab
    tally = Tally(target, 4, enumerate_cells(Law(target), 4))
    tally.add(batch, replace(emission, **{field: array}))
    assert any(tally.breaches.values())


@pytest.mark.parametrize("tau", [1e39, 1e-46])
def test_tau_is_judged_as_fp32(tau: float) -> None:
    x = torch.zeros(1, 40)
    x[0, 3], x[0, 5:20] = 1, -float("inf")
    word, on = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int32)
    try:
        with np.errstate(all="ignore"):
            got = proposal.propose(x, on, word, word, word, tau)
    except ValueError:
        return
    assert 0 <= int(got.token[0, 0]) < 40
    zero = np.zeros(1, np.uint64)
    with np.errstate(all="ignore"):
        expected = reference.propose(x.numpy(), np.array([True]), zero, zero, zero, tau)
    assert got.token[0, 0] == expected.token[0]


def test_out_buffers_are_checked() -> None:
    word, ints = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.int32)
    whole = torch.full((64,), -7, dtype=torch.int32)
    out = verifier.Verified(whole[:1], whole[8:13].view(1, 5), whole[20:21])
    with pytest.raises(ValueError, match=r"out\.status is \(1,\)"), np.errstate(all="ignore"):
        verifier.verify(
            torch.full((2, 5, 64), 1 / 64),
            torch.zeros(2, 4, dtype=torch.int32),
            None,
            None,
            ints,
            word,
            word,
            word,
            out=out,
        )
    assert (whole == -7).all()


def test_out_of_a_proposal_is_checked() -> None:
    word, ints = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.int32)
    whole = torch.full((400,), -7, dtype=torch.int32)
    out = proposal.Drafts(whole[:1], whole[8:10].view(2, 1), whole[20:84].view(2, 1, 32), whole[100:164].view(2, 1, 32))
    with pytest.raises(ValueError, match=r"out\.status is \(1,\)"), np.errstate(all="ignore"):
        proposal.propose(torch.zeros(2, 40), ints, word, word, word, out=out)  # status holds 1 of 2 rows


def test_an_unwritten_status_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    verify = verifier.verify

    def lazy(*arguments: Any, out: verifier.Verified) -> verifier.Verified:
        found = verify(*arguments)
        out.tokens.copy_(found.tokens)
        out.num_sampled.copy_(found.num_sampled)
        return out

    monkeypatch.setattr(verifier, "verify", lazy)
    batch = sampled_batch(build("disjoint"), 4, 4, Seed(bytes(32)), 0, 4)
    assert (sampler_module.KernelSampler("cpu").run(batch).status != 0).all()


@pytest.mark.parametrize("budget", [{"alpha": 0.9, "power": 0.001}, {"alpha": 5e-324}])
def test_a_budget_that_cannot_be_judged_is_refused(budget: dict[str, float]) -> None:
    with pytest.raises(CampaignError, match="must be"):
        campaign.of_document(dict(budget), "a test")


@pytest.mark.parametrize("budget", [{"alpha": 0.9, "power": 0.95}, {"alpha": 1e-30}])
def test_the_outermost_budgets_can_be_judged(budget: dict[str, float]) -> None:
    chosen = campaign.of_document(dict(budget), "a test")
    for check in design(chosen):
        if check.df:
            assert 0 < detectable_tv(check.alpha, check.df, check.events, chosen.spec.power) <= 1


def test_mismatches_are_pairs() -> None:
    from pp3.harness import paired

    class Failed(ReferenceSampler):
        def run(self, batch: Batch) -> Emission:
            emission = super().run(batch)
            return replace(emission, tokens=emission.tokens ^ 1) if batch.carrier else emission

    found = paired.run(Failed(), build("invalidated"), 4, Seed(bytes(32)), 0, 90)
    assert found.mismatches <= found.pairs


def test_a_row_nobody_can_draft_from_is_refused() -> None:
    row = {"ids": [1], "weights": [1 << 24], "draft_ids": [], "draft_logits": []}
    with pytest.raises(CampaignError):
        campaign.of_document({"targets": ["m"], "target": [{"name": "m", "vocab": 40, "rows": [row]}]}, "a test")


def test_depth_0_is_refused() -> None:
    word, ints = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int32)
    with pytest.raises(ValueError, match="depth 1 or more"), np.errstate(all="ignore"):
        verifier.verify(
            torch.full((1, 1, 64), 1 / 64), torch.zeros(1, 0, dtype=torch.int32), None, None, ints, word, word, word
        )
