"""The real files: every pinned version, loaded and run in the interpreter; not run where `make image` has not been."""

import inspect
import itertools
from functools import cache as once
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pp3.harness.filters import Order, Rules, Settings, Ties, law_of_logits
from pp3.harness.image import cache, pins, shims
from pp3.harness.image.find import Image, Where, find
from pp3.harness.image.load import ENTRIES, Loaded, load
from pp3.harness.image.pins import Part

VOCAB, DEPTH, REQUESTS = 8, 2, 4
ROWS = REQUESTS * (DEPTH + 1)
INVALIDATED = -1
VERSIONS = pytest.mark.parametrize("version", pins.PINS)


def image_of(version: str) -> Image:
    """From the cache, or a named skip."""
    home = cache.default_folder()
    if home is None or not (home / version).is_dir():
        pytest.skip(f"no image of vllm {version} here: make image VERSION={version}")
    return find(home, version)


@once
def loaded_from(image_version: str, part: Part) -> Loaded:
    """One load for all tests of this file: versions lie side by side in the process."""
    return load(image_of(image_version), part)


def part_of(version: str, part: Part) -> Loaded:
    """A skip outside of the memory."""
    image_of(version)
    return loaded_from(version, part)


def verifier_arguments(temperature: float, drafts: torch.Tensor, rng: np.random.Generator) -> dict[str, Any]:
    """A full batch of rounds: target [rows, V], draft logits [requests, depth, V], drafts [requests, depth]."""
    slots = torch.arange(REQUESTS, dtype=torch.int32)
    sampled = torch.cat([torch.zeros(REQUESTS, 1, dtype=torch.int64), drafts], dim=1)
    return {
        "target_logits": torch.tensor(rng.normal(0, 1, (ROWS, VOCAB)), dtype=torch.float32),
        "draft_logits": torch.tensor(rng.normal(0, 1, (REQUESTS, DEPTH, VOCAB)), dtype=torch.float32),
        "draft_sampled": sampled.flatten(),
        "cu_num_logits": torch.arange(0, ROWS + 1, DEPTH + 1, dtype=torch.int32),
        "pos": torch.arange(ROWS, dtype=torch.int64),
        "idx_mapping": slots,
        "expanded_idx_mapping": slots.repeat_interleave(DEPTH + 1),
        "expanded_local_pos": torch.arange(DEPTH + 1, dtype=torch.int32).repeat(REQUESTS),
        "temperature": torch.full((REQUESTS,), temperature),
        "seed": torch.arange(REQUESTS, dtype=torch.int64) + 11,
        "num_speculative_steps": DEPTH,
    }


@VERSIONS
def test_the_image_is_the_release(version: str) -> None:
    """Every file by RECORD and by pin, and nothing else kept."""
    image = image_of(version)
    assert (image.version, image.where) == (version, Where.CACHE)
    assert (image.matches_record, image.matches_pin) == (True, True)
    kept = {str(path.relative_to(image.place)) for path in image.place.rglob("*.py")}
    assert kept == set(image.members) == set(pins.PINS[version].files)


@VERSIONS
@pytest.mark.parametrize("part", Part)
def test_a_part_is_loaded_from_its_files_alone(version: str, part: Part) -> None:
    """No engine, config or platform module, then or later; the entry points are there."""
    loaded = part_of(version, part)
    assert set(loaded.files) == set(pins.PINS[version].members(part))
    assert len(loaded.modules) == len(loaded.files)
    assert set(loaded.entries) == set(ENTRIES[part])
    assert loaded.intruders() == []


@VERSIONS
def test_every_watermark_launcher_raises(version: str) -> None:
    """Every function of the real file that is no kernel, but the one that a raiser guards."""
    loaded = part_of(version, Part.V2)
    marks = loaded.modules.get("vllm.v1.worker.gpu.sample.watermark")
    assert (marks is not None) == (pins.WATERMARK in pins.PINS[version].files)
    verifier = [name for name in loaded.forbidden if "rejection_sample(" in name]
    assert bool(verifier) == (marks is not None)
    if marks is not None:
        launchers = {
            name
            for name, value in vars(marks).items()
            if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == marks.__name__
        }
        assert launchers == set()
        assert {name for name, value in vars(marks).items() if getattr(value, "__module__", "") == shims.__name__} == {
            name for name in shims.FORBIDDEN[marks.__name__] if f"{marks.__name__}.{name}" in loaded.forbidden
        }


@VERSIONS
def test_v2_at_temperature_zero_is_the_argmax(version: str, rng: np.random.Generator) -> None:
    """Drafts that are the argmax are kept, the first other is replaced by it; an invalidated one too, and it ends."""
    verify = part_of(version, Part.V2).entries["rejection_sample"]
    arguments = verifier_arguments(0.0, torch.zeros(REQUESTS, DEPTH, dtype=torch.int64), rng)
    best = arguments["target_logits"].argmax(dim=-1).reshape(REQUESTS, DEPTH + 1)
    wrong = (best + 1) % VOCAB
    drafts = torch.stack(
        [
            best[0, :DEPTH],
            torch.stack([best[1, 0], wrong[1, 1]]),
            torch.stack([wrong[2, 0], best[2, 1]]),
            torch.tensor([INVALIDATED, int(best[3, 1])]),
        ]
    )
    arguments["draft_sampled"] = torch.cat([torch.zeros(REQUESTS, 1, dtype=torch.int64), drafts], dim=1).flatten()
    with np.errstate(all="ignore"):
        tokens, lengths = verify(**arguments)
    assert lengths.tolist() == [3, 2, 1, 1]
    assert [row[:n] for row, n in zip(tokens.tolist(), lengths, strict=True)] == [
        row[:n] for row, n in zip(best.tolist(), lengths, strict=True)
    ]


@VERSIONS
def test_v2_samples_and_repeats(version: str, rng: np.random.Generator) -> None:
    """Tokens of the vocabulary, the same again for the same seeds; a draft is kept or replaced."""
    verify = part_of(version, Part.V2).entries["rejection_sample"]
    drafts = torch.tensor(rng.integers(0, VOCAB, (REQUESTS, DEPTH)))
    arguments = verifier_arguments(1.0, drafts, rng)
    runs = []
    for _ in range(2):
        with np.errstate(all="ignore"):
            tokens, lengths = verify(**arguments)
        runs.append([row[:n] for row, n in zip(tokens.tolist(), lengths.tolist(), strict=True)])
    assert runs[0] == runs[1]
    for row, given in zip(runs[0], drafts.tolist(), strict=True):
        assert 1 <= len(row) <= DEPTH + 1
        assert set(row) <= set(range(VOCAB))
        assert row[:-1] == given[: len(row) - 1]


@VERSIONS
def test_v2_gumbel_keeps_the_logits_it_drew_from(version: str, rng: np.random.Generator) -> None:
    """With a cache, which needs the mask that the interpreter lacks; at temperature 0 the token is the argmax."""
    sample = part_of(version, Part.V2).entries["gumbel_sample"]
    logits = torch.tensor(rng.normal(0, 1, (REQUESTS, VOCAB)), dtype=torch.float32)
    kept = torch.zeros(REQUESTS, DEPTH, VOCAB)
    arguments = {
        "logits": logits.clone(),
        "expanded_idx_mapping": torch.arange(REQUESTS, dtype=torch.int32),
        "temperature": torch.tensor([0.0, 1.0, 0.7, 1.0]),
        "seed": torch.arange(REQUESTS, dtype=torch.int64),
        "pos": torch.arange(REQUESTS, dtype=torch.int64),
        "apply_temperature": True,
        "logits_cache": kept,
        "logits_cache_col": torch.ones((), dtype=torch.int32),
    }
    if "is_drafting" in inspect.signature(sample).parameters:
        arguments["is_drafting"] = True
    with np.errstate(all="ignore"):
        tokens = sample(**arguments)
    assert int(tokens[0]) == int(logits[0].argmax())
    assert all(0 <= token < VOCAB for token in tokens.tolist())
    assert torch.equal(kept[:, 1], logits)
    assert not kept[:, 0].any()


@VERSIONS
def test_classic_keeps_certain_drafts_and_replaces_impossible_ones(version: str, rng: np.random.Generator) -> None:
    """A draft the target is certain of is kept, with the bonus; one it never has is replaced by what it has."""
    verify = part_of(version, Part.CLASSIC).entries["rejection_sample"]
    certain = torch.tensor(rng.integers(0, VOCAB, REQUESTS * DEPTH))
    target = torch.full((REQUESTS * DEPTH, VOCAB), -float("inf")).scatter_(1, certain[:, None], 0.0)
    drafts = certain.clone()
    drafts[-1] = (certain[-1] + 1) % VOCAB
    how = SimpleNamespace(all_greedy=False, all_random=True, temperature=torch.ones(REQUESTS), generators={})
    with np.errstate(all="ignore"):
        tokens = verify(
            drafts.int(),
            [DEPTH] * REQUESTS,
            DEPTH,
            torch.arange(DEPTH, REQUESTS * DEPTH + 1, DEPTH, dtype=torch.int32),
            torch.full((REQUESTS * DEPTH, VOCAB), 1 / VOCAB),
            target,
            torch.arange(REQUESTS, dtype=torch.int32)[:, None],
            how,
        )
    expected = [[*certain[2 * n : 2 * n + 2].tolist(), n] for n in range(REQUESTS)]
    expected[-1][-1] = -1
    assert tokens.tolist() == expected


@VERSIONS
def test_filters_keep_what_their_definition_keeps(version: str, rng: np.random.Generator) -> None:
    """Sort path and Triton kernel, on distinct logits: the k largest, then the smallest set of mass p."""
    entries = part_of(version, Part.TOPK_TOPP).entries
    cases = [*itertools.product((1, 3, 7, VOCAB), (0.2, 0.75, 1.0))]
    logits = torch.tensor(rng.normal(0, 2, (len(cases), VOCAB)), dtype=torch.float32)
    k = torch.tensor([case[0] for case in cases], dtype=torch.int32)
    p = torch.tensor([case[1] for case in cases], dtype=torch.float32)
    order = logits.double().argsort(dim=-1, descending=True)
    ranked = logits.double().gather(1, order)
    ranked = ranked.masked_fill(torch.arange(VOCAB) >= k[:, None], -float("inf")).softmax(dim=-1)
    stays = (ranked.cumsum(dim=-1) - ranked < p[:, None]) & (ranked > 0)
    expected = torch.zeros_like(stays).scatter_(1, order, stays)
    for name in ("apply_top_k_top_p_pytorch", "apply_top_k_top_p_triton", "apply_top_k_top_p"):
        with np.errstate(all="ignore"):
            kept = entries[name](logits.clone(), k.clone(), p.clone())
        assert torch.equal(torch.isfinite(kept), expected), name
        assert torch.equal(kept[expected], logits[expected]), name


@VERSIONS
def test_the_filtering_sampler_draws_what_is_left(version: str, rng: np.random.Generator) -> None:
    """Top-1 is the argmax; its native path, which the flags of the stand-ins select on a GPU."""
    entries = part_of(version, Part.TOPK_TOPP).entries
    logits = torch.tensor(rng.normal(0, 1, (REQUESTS, VOCAB)), dtype=torch.float32)
    with np.errstate(all="ignore"):
        tokens, _ = entries["TopKTopPSampler"]().forward_native(
            logits.clone(), {}, torch.ones(REQUESTS, dtype=torch.int32), None
        )
    assert tokens.tolist() == logits.argmax(dim=-1).tolist()


TIES = (  # logits, top_p, what is kept; two tokens reach p in each
    ((1.5, 0.7, 0.7, 0.1), 0.57, [0, 1, 2]),
    ((0.0, -1.0, -1.0, -2.0), 0.6, [0, 1]),
)


@pytest.mark.parametrize("version", ["0.28.0", "0.33.0"])
@pytest.mark.parametrize("rule", Ties)
def test_no_tie_rule_of_top_p_describes_the_triton_kernel(version: str, rule: Ties) -> None:
    """docs/findings.md: rounding decides whether a tie at the border is cut, by id, or kept whole."""
    entries = part_of(version, Part.TOPK_TOPP).entries
    met = []
    for logits, top_p, expected in TIES:
        row = torch.tensor([logits])
        with np.errstate(all="ignore"):
            kept = entries["apply_top_k_top_p_triton"](row.clone(), torch.tensor([4]), torch.tensor([top_p]))[0]
        assert kept.isfinite().nonzero()[:, 0].tolist() == expected
        rules = Rules(order=Order.MIN_P_FIRST, ties=Ties.LOWER_ID, top_p_ties=rule)
        law = law_of_logits(row[0].numpy(), Settings(top_p=top_p), rules).law
        met.append(law.kept == len(expected))
    assert met == [rule is Ties.ALL_KEPT, rule is not Ties.ALL_KEPT]
