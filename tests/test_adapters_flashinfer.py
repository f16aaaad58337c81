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
Tensor = torch.Tensor
Seeds = int | Tensor | None


def rows(table: Tensor) -> Tensor:
    """What CHECK_INPUT, CHECK_DIM and a cast that must not copy ask for, in FP64."""
    assert table.ndim == 2
    assert table.is_contiguous()
    assert table.dtype == torch.float32
    return table.double()


def setting(value: Tensor, table: Tensor, dtype: torch.dtype) -> Tensor:
    """A setting by row, [n, 1]."""
    assert value.shape == table.shape[:1]
    assert value.dtype == dtype
    return value[:, None]


def drawn(mass: Tensor, indices: Any, generator: Any, seeds: tuple[Seeds, Seeds]) -> tuple[Tensor, Tensor]:
    """Ids [n] int32 in proportion to masses [n, vocab]; 0 and False for a row without any, as the kernels say it."""
    assert indices is None
    assert isinstance(generator, torch.Generator)
    assert seeds == (None, None)
    lawful = (mass > 0).any(dim=1)
    ids = torch.multinomial(torch.where(lawful[:, None], mass, 1.0), 1, generator=generator)[:, 0]
    return torch.where(lawful, ids, 0).to(torch.int32), lawful


def answer(found: tuple[Tensor, Tensor], return_valid: bool) -> Any:
    return found if return_valid else found[0]


def above_k(probs: Tensor, top_k: Tensor) -> Tensor:
    """Which tokens [n, vocab] have fewer than k above them."""
    falling = probs.sort(dim=1, descending=True).values
    last = falling.gather(1, setting(top_k, probs, torch.int32).clamp(1, probs.shape[1]).long() - 1)
    return (probs >= last) & (top_k > 0)[:, None]


def above_p(probs: Tensor, top_p: Tensor) -> Tensor:
    """Which tokens have less than p above them."""
    falling = probs.sort(dim=1, descending=True).values
    before = falling.cumsum(dim=1) - falling
    inside = before < setting(top_p, probs, torch.float32)
    return probs >= torch.where(inside, falling, torch.inf).amin(dim=1, keepdim=True)


def sampling_from_logits(
    logits: Tensor,
    indices: Tensor | None = None,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check_nan: bool = False,
    seed: Seeds = None,
    offset: Seeds = None,
) -> Any:
    return drawn(torch.softmax(rows(logits), dim=1), indices, generator, (seed, offset))[0]


def sampling_from_probs(
    probs: Tensor,
    indices: Tensor | None = None,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check_nan: bool = False,
    seed: Seeds = None,
    offset: Seeds = None,
    return_valid: bool = False,
) -> Any:
    return answer(drawn(rows(probs), indices, generator, (seed, offset)), return_valid)


def top_k_sampling_from_probs(
    probs: Tensor,
    top_k: Any,
    indices: Tensor | None = None,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check_nan: bool = False,
    seed: Seeds = None,
    offset: Seeds = None,
    return_valid: bool = False,
) -> Any:
    wide = rows(probs)
    return answer(drawn(wide * above_k(wide, top_k), indices, generator, (seed, offset)), return_valid)


def top_p_sampling_from_probs(
    probs: Tensor,
    top_p: Any,
    indices: Tensor | None = None,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check_nan: bool = False,
    seed: Seeds = None,
    offset: Seeds = None,
    return_valid: bool = False,
) -> Any:
    wide = rows(probs)
    return answer(drawn(wide * above_p(wide, top_p), indices, generator, (seed, offset)), return_valid)


def min_p_sampling_from_probs(
    probs: Tensor,
    min_p: Any,
    indices: Tensor | None = None,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check_nan: bool = False,
    seed: Seeds = None,
    offset: Seeds = None,
    return_valid: bool = False,
) -> Any:
    wide = rows(probs)
    kept = wide >= wide.amax(dim=1, keepdim=True) * setting(min_p, probs, torch.float32)
    return answer(drawn(wide * kept, indices, generator, (seed, offset)), return_valid)


def top_k_top_p_sampling_from_probs(
    probs: Tensor,
    top_k: Any,
    top_p: Any,
    indices: Tensor | None = None,
    filter_apply_order: str = "top_k_first",
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check_nan: bool = False,
    seed: Seeds = None,
    offset: Seeds = None,
    return_valid: bool = False,
) -> Any:
    wide = rows(probs)
    kept = wide * above_k(wide, top_k)
    if filter_apply_order == "joint":
        kept = kept * above_p(wide, top_p)
    else:
        assert filter_apply_order == "top_k_first"
        kept = kept / kept.sum(dim=1, keepdim=True).clamp(min=1e-8)
        kept = kept * above_p(kept, top_p)
    return answer(drawn(kept, indices, generator, (seed, offset)), return_valid)


def top_k_top_p_sampling_from_logits(
    logits: Tensor,
    top_k: Any,
    top_p: Any,
    indices: Tensor | None = None,
    filter_apply_order: str = "top_k_first",
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check_nan: bool = False,
    seed: Seeds = None,
    offset: Seeds = None,
) -> Any:
    probs = torch.softmax(rows(logits), dim=1).float()
    found: Any = top_k_top_p_sampling_from_probs(
        probs, top_k, top_p, indices, filter_apply_order, deterministic, generator, check_nan, seed, offset
    )
    return found


def chain_speculative_sampling(
    draft_probs: Any,
    draft_token_ids: Any,
    target_probs: Any,
    maybe_output_accepted_token_num: Tensor | None = None,
    maybe_output_emitted_draft_token_num: Tensor | None = None,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    seed: Seeds = None,
    offset: Seeds = None,
) -> Any:
    n, depth = draft_token_ids.shape
    accepted, emitted = maybe_output_accepted_token_num, maybe_output_emitted_draft_token_num
    assert accepted is not None
    assert emitted is not None
    assert accepted.dtype == emitted.dtype == draft_token_ids.dtype == torch.int32
    assert draft_probs.dtype == target_probs.dtype == torch.float32
    assert draft_probs.is_contiguous()
    assert target_probs.is_contiguous()
    assert draft_probs.shape == (n, depth, target_probs.shape[2])
    assert target_probs.shape[:2] == (n, depth + 1)
    assert (draft_token_ids >= 0).all()
    assert (seed, offset) == (None, None)
    ids = draft_token_ids.long()[..., None]
    target, proposal = target_probs[:, :depth].gather(2, ids)[..., 0], draft_probs.gather(2, ids)[..., 0]
    kept = torch.rand(n, depth, generator=generator, dtype=torch.float64) * proposal < target
    length = kept.long().cumprod(dim=1).sum(dim=1)
    accepted += kept.sum(dim=1).int()
    emitted += length.int()
    every, none = torch.arange(n), torch.zeros_like(target_probs[:, :1])
    left = (target_probs[every, length] - torch.cat([draft_probs, none], dim=1)[every, length]).clamp(min=0)
    places = torch.arange(depth + 1)
    tokens = torch.nn.functional.pad(draft_token_ids, (0, 1)).masked_fill(places > length[:, None], -1)
    tokens[every, length] = torch.multinomial(left, 1, generator=generator)[:, 0].int()
    return tokens, accepted, emitted


STAND_INS: tuple[Callable[..., Any], ...] = (
    sampling_from_logits,
    sampling_from_probs,
    top_k_sampling_from_probs,
    top_p_sampling_from_probs,
    min_p_sampling_from_probs,
    top_k_top_p_sampling_from_probs,
    top_k_top_p_sampling_from_logits,
    chain_speculative_sampling,
)


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
