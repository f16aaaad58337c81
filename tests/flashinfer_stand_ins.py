"""FlashInfer's sampling functions as far as the adapters call them, written in torch."""

from collections.abc import Callable
from typing import Any

import torch

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
