"""FlashInfer's adapters: their wiring against stand-ins written in torch, and on a GPU the kernels themselves."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from flashinfer_stand_ins import STAND_INS

from pp3 import qualify
from pp3.harness.samplers import flashinfer_sampling as adapters
from pp3.harness.samplers import registry
from pp3.harness.samplers.contract import Batch, Carrier, Kind, Randomness, Void
from pp3.harness.samplers.flashinfer_chain import Chain
from pp3.harness.seeds import Seed
from pp3.harness.trial import guard
from pp3.harness.trial.launches import ENTRIES
from pp3.harness.trial.problems import choose, names
from pp3.harness.trial.run import batch_of
from pp3.harness.verdict import Verdict

VERSION = "0.6.18.post1"
PLAIN = {
    sampler.name: sampler
    for sampler in (
        adapters.from_logits,
        adapters.from_probs,
        adapters.top_k,
        adapters.top_p,
        adapters.min_p,
        adapters.top_k_top_p,
        adapters.joint,
        adapters.top_k_top_p_logits,
        adapters.joint_logits,
    )
}
EVERY: dict[str, Any] = {**PLAIN, "flashinfer-chain": Chain()}


@pytest.fixture
def flashinfer(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> ModuleType:
    """A package of this name whose kernels are the stand-ins, with one source file."""
    package, sampling = ModuleType("flashinfer"), ModuleType("flashinfer.sampling")
    package.__spec__ = ModuleSpec("flashinfer", None)
    package.__file__ = str(tmp_path / "__init__.py")
    vars(package).update(__version__=VERSION, sampling=sampling)
    (tmp_path / "sampling.py").write_bytes(b"")
    for function in STAND_INS:
        setattr(sampling, function.__name__, function)
    monkeypatch.setitem(sys.modules, "flashinfer", package)
    monkeypatch.setitem(sys.modules, "flashinfer.sampling", sampling)
    return package


def batches(sampler: Any, size: int = 60, device: str = "cpu") -> list[Batch]:
    """The first requests of every problem of a sampler."""
    who = sampler.describe()
    problems, _ = choose(who, names(Kind(who.kind)))
    return [batch_of(problem, who, Seed(bytes(32)), 0, size, device) for problem in problems]


@pytest.mark.parametrize("name", EVERY)
def test_the_catalogue_leads_to_it(name: str, flashinfer: ModuleType) -> None:
    entry = registry.find(name)
    assert registry.load(entry).describe().name == name
    assert (entry.needs, entry.gpu, entry.version) == (("flashinfer",), True, VERSION)
    assert not registry.missing(entry, gpu=True)
    assert registry.missing(entry, gpu=False) == "needs a CUDA GPU"


def test_every_entry_of_the_catalogue_is_tested_here() -> None:
    assert {entry.name for entry in registry.built_in() if "flashinfer" in entry.needs} == set(EVERY)


@pytest.mark.parametrize(
    ("name", "carrier", "filters", "order"),
    [
        ("flashinfer-logits", "logits", ("temperature",), "top-k-first"),
        ("flashinfer-probs", "probs", (), "top-k-first"),
        ("flashinfer-top-k", "probs", ("top_k",), "top-k-first"),
        ("flashinfer-top-p", "probs", ("top_p",), "top-k-first"),
        ("flashinfer-min-p", "probs", ("min_p",), "top-k-first"),
        ("flashinfer-top-k-top-p", "probs", ("top_k", "top_p"), "top-k-first"),
        ("flashinfer-top-k-top-p-joint", "probs", ("top_k", "top_p"), "joint"),
        ("flashinfer-top-k-top-p-logits", "logits", ("temperature", "top_k", "top_p"), "top-k-first"),
        ("flashinfer-top-k-top-p-joint-logits", "logits", ("temperature", "top_k", "top_p"), "joint"),
    ],
)
def test_plain_declarations(
    name: str, carrier: str, filters: tuple[str, ...], order: str, flashinfer: ModuleType
) -> None:
    who = PLAIN[name].describe()
    assert (who.kind, who.target_carrier, who.filters, who.order) == (Kind.PLAIN, carrier, filters, order)
    assert (who.ties, who.top_p_ties, who.top_p_hit) == ("all-kept", "all-kept", "stops")
    assert (who.randomness, who.row_key, who.greedy) == (Randomness.GENERATOR, "slot", False)
    assert who.version == VERSION
    assert [file for file, _ in who.files] == ["flashinfer/sampling.py"]
    assert who.max_vocab * adapters.ROWS < adapters.ELEMENTS


def test_chain_declarations(flashinfer: ModuleType) -> None:
    who = Chain().describe()
    assert (who.kind, who.target_carrier, who.draft_carrier) == (Kind.VERIFIER, Carrier.PROBS, Carrier.PROBS)
    assert (who.randomness, who.row_key, who.void, who.greedy) == (
        Randomness.GENERATOR,
        "slot",
        Void.UNSUPPORTED,
        True,
    )


def test_no_launch_has_more_elements_than_its_indices_reach() -> None:
    assert ENTRIES < adapters.ELEMENTS


@pytest.mark.parametrize("name", EVERY)
def test_every_batch_keeps_the_contract(name: str, flashinfer: ModuleType) -> None:
    sampler = EVERY[name]
    for batch in batches(sampler):
        emission = guard.run(sampler, batch, Kind(sampler.describe().kind))
        assert emission.tokens.shape == (len(batch), batch.depth + 1)
        assert not emission.status.any()


@pytest.mark.parametrize("name", EVERY)
def test_the_stand_ins_show_the_declared_law(name: str, flashinfer: ModuleType) -> None:
    report = qualify(EVERY[name], requests=20_000 if name == "flashinfer-chain" else 1_000, device="cpu", counter=1)
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize(
    ("name", "draws_like"),
    [
        ("flashinfer-top-k-top-p", "flashinfer-top-k-top-p-joint"),
        ("flashinfer-top-k-top-p-joint", "flashinfer-top-k-top-p"),
        ("flashinfer-top-k-top-p-logits", "flashinfer-top-k-top-p-joint-logits"),
        ("flashinfer-top-k-top-p-joint-logits", "flashinfer-top-k-top-p-logits"),
        ("flashinfer-top-k", "flashinfer-probs"),
        ("flashinfer-top-p", "flashinfer-probs"),
        ("flashinfer-min-p", "flashinfer-probs"),
        ("flashinfer-top-k-top-p", "flashinfer-top-k"),
        ("flashinfer-top-k-top-p", "flashinfer-top-p"),
    ],
)
def test_another_entry_point_fails(name: str, draws_like: str, flashinfer: ModuleType) -> None:
    wrong = replace(PLAIN[name], draw=PLAIN[draws_like].draw)
    assert qualify(wrong, requests=1_000, device="cpu", counter=1).verdict is Verdict.FAIL


@pytest.mark.parametrize(("k", "kept"), [(0, 12), (1, 1), (12, 12), (13, 13)])
def test_top_k_off_is_the_vocabulary_and_nothing_is_clamped(k: int, kept: int, flashinfer: ModuleType) -> None:
    batch = next(one for one in batches(adapters.top_k) if one.vocab == 12)
    settings = adapters._top_k(batch)
    assert settings.dtype == torch.int32
    asked = batch.top_k == k
    assert asked.any()
    assert (settings[asked] == kept).all()


def test_settings_that_no_row_has_are_off(flashinfer: ModuleType) -> None:
    batch = batches(adapters.from_probs, size=3)[0]
    assert batch.top_k is batch.top_p is batch.min_p is None
    assert adapters._top_k(batch).tolist() == [batch.vocab] * 3
    assert adapters._share(batch, batch.top_p, 1.0).tolist() == [1.0] * 3
    assert adapters._share(batch, batch.min_p, 0.0).tolist() == [0.0] * 3


def test_a_row_that_is_no_law_is_said_so(flashinfer: ModuleType) -> None:
    batch = batches(adapters.from_probs, size=4)[0]
    batch.tensors.probs[2] = 0
    emission = adapters.from_probs.run(batch)
    assert emission.status.tolist() == [0, 0, 1, 0]


def test_counters_start_at_zero_every_time(flashinfer: ModuleType) -> None:
    batch = batches(Chain())[0]
    for _ in range(2):
        emission = Chain().run(batch)
        assert torch.equal(emission.num_sampled, (emission.tokens >= 0).sum(dim=1))


def test_columns_after_the_last_token_are_padded(flashinfer: ModuleType) -> None:
    for batch in batches(Chain()):
        emission = guard.run(Chain(), batch, Kind.VERIFIER)
        after = np.arange(batch.depth + 1) >= emission.num_sampled.numpy()[:, None]
        assert (emission.tokens.numpy()[after] == -1).all()
        assert (emission.tokens.numpy()[~after] >= 0).all()


def test_invalidated_drafts_are_left_out_with_the_reason(flashinfer: ModuleType) -> None:
    _, left = choose(Chain().describe(), names(Kind.VERIFIER))
    assert left == {
        "void": "invalidated drafts; the sampler declares that it takes none",
        "ragged": "requests with fewer drafts than others; the sampler does not declare ragged",
    }


if importlib.util.find_spec("flashinfer"):

    @pytest.mark.gpu
    @pytest.mark.parametrize("function", STAND_INS, ids=lambda function: function.__name__)
    def test_a_stand_in_is_called_as_the_kernel_is(function: Callable[..., Any]) -> None:
        real = inspect.signature(getattr(adapters.package().sampling, function.__name__)).parameters.values()
        ours = inspect.signature(function).parameters.values()
        assert [(one.name, one.default) for one in ours] == [(one.name, one.default) for one in real]

    @pytest.mark.gpu
    @pytest.mark.parametrize("name", EVERY)
    def test_the_kernels_emit_the_declared_law(name: str) -> None:
        report = qualify(EVERY[name], requests=20_000, device="cuda", counter=1)
        assert report.verdict is Verdict.PASS, str(report)
