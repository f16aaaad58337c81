"""Who else picks from the 32 largest logits: torch, FlashInfer and vLLM, on the same tensors, as their users call them.

Each is opened, or says why it cannot be had here, and then takes one position of a round. A token that lies outside the
32 largest, ties included, takes a peer's times away. FlashInfer's seeds are given as numbers, since a captured launch
cannot read a generator.
"""

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pp3.harness.errors import PP3Error
from pp3.harness.image import pins
from pp3.harness.image.load import Loaded
from pp3.harness.image.pins import Part as ImagePart
from pp3.harness.probe.plan import Case, Part, contenders
from pp3.harness.probe.timing import Contestant
from pp3.kernels.reference import SUPPORT, TAU

Position = Callable[[torch.Tensor], torch.Tensor]  # logits [batch, vocab] bf16 to tokens [batch], or [batch, 32]
SEED, OFFSET = 1, 0
VLLM = pins.DEFAULT
NO_SGLANG = "SGLang's pinned file verifies drafts; it holds no sampler of its own"
NOT_BUILT = "FlashInfer's radix top-k is compiled on first use, and is not compiled here"


@functools.cache
def vllm(part: ImagePart) -> Loaded:
    """A part of the pinned vLLM, loaded once: its kernels are compiled anew for every load."""
    from pp3.harness.samplers.vllm_image import open_part

    return open_part(None, VLLM, part)


def argmax(_case: Case, _device: torch.device) -> Position:
    """torch.argmax."""
    return lambda logits: logits.argmax(dim=-1)


def topk(_case: Case, _device: torch.device) -> Position:
    """torch.topk."""
    return lambda logits: logits.topk(SUPPORT, dim=-1).indices


def topk_draw(_case: Case, _device: torch.device) -> Position:
    """torch.topk, softmax in FP32, torch.multinomial."""

    def draw(logits: torch.Tensor) -> torch.Tensor:
        values, ids = logits.topk(SUPPORT, dim=-1)
        place = torch.multinomial((values.float() / TAU).softmax(dim=-1), 1)
        return ids.gather(-1, place)[:, 0]

    return draw


def flashinfer_top_k(_case: Case, _device: torch.device) -> Position:
    """FlashInfer's own softmax and top-k sampling of a whole row."""
    sampling = _flashinfer()

    def draw(logits: torch.Tensor) -> torch.Tensor:
        probs = sampling.softmax(logits.float(), temperature=TAU)
        tokens: torch.Tensor = sampling.top_k_sampling_from_probs(probs, SUPPORT, seed=SEED, offset=OFFSET)
        return tokens

    return draw


def flashinfer_probs(_case: Case, _device: torch.device) -> Position:
    """Its top-k sampling alone; the probabilities of each tensor are made once, outside the times."""
    sampling, made = _flashinfer(), dict[int, tuple[torch.Tensor, torch.Tensor]]()

    def draw(logits: torch.Tensor) -> torch.Tensor:
        if logits.data_ptr() not in made:
            made[logits.data_ptr()] = (logits, (logits.float() / TAU).softmax(dim=-1))
        probs = made[logits.data_ptr()][1]
        tokens: torch.Tensor = sampling.top_k_sampling_from_probs(probs, SUPPORT, seed=SEED, offset=OFFSET)
        return tokens

    return draw


def flashinfer_top_k_first(_case: Case, _device: torch.device) -> Position:
    """Its radix top-k, softmax of those and a draw: what a scalar k selects at large vocabularies."""
    sampling = _flashinfer()
    spec = importlib.import_module("flashinfer.jit.topk").gen_topk_module()
    if not Path(spec.get_library_path()).is_file():
        raise PP3Error(NOT_BUILT)

    def draw(logits: torch.Tensor) -> torch.Tensor:
        tokens: torch.Tensor = sampling.top_k_top_p_sampling_from_logits(
            logits.float() / TAU, SUPPORT, 1.0, filter_apply_order="top_k_first", seed=SEED, offset=OFFSET
        )
        return tokens

    return draw


def vllm_top_k(case: Case, device: torch.device) -> Position:
    """vLLM's Triton filter, softmax and its draw, of model runner V1."""
    from pp3.harness.samplers.vllm_filters import GIVEN, LEFT
    from pp3.harness.samplers.vllm_image import Function

    loaded = vllm(ImagePart.TOPK_TOPP)
    keep = Function(loaded, "apply_top_k_top_p_triton", GIVEN, LEFT)
    pick = Function(loaded, "random_sample", ("probs", "generators"), ("use_fp64_gumbel",))
    k = torch.full((case.batch,), SUPPORT, dtype=torch.int32, device=device)

    def draw(logits: torch.Tensor) -> torch.Tensor:
        kept = keep(logits=logits.float() / TAU, k=k, p=None)
        tokens: torch.Tensor = pick(probs=kept.softmax(dim=-1, dtype=torch.float32), generators={})
        return tokens

    return draw


def vllm_gumbel(case: Case, device: torch.device) -> Position:
    """vLLM's Gumbel-max draw of model runner V2, from the whole vocabulary."""
    from pp3.harness.samplers.vllm_gumbel import open_sampler, salt

    sampler = open_sampler(vllm(ImagePart.V2))
    salted = salt(sampler, drafting=True)
    index = torch.arange(case.batch, dtype=torch.int32, device=device)
    heat = torch.full((case.batch,), TAU, device=device)
    seed, pos = index.long() + SEED, index.long()

    def draw(logits: torch.Tensor) -> torch.Tensor:
        tokens: torch.Tensor = sampler(
            logits=logits,
            expanded_idx_mapping=index,
            temperature=heat,
            seed=seed,
            pos=pos,
            apply_temperature=True,
            **salted,
        )
        return tokens

    return draw


def sglang_top_k(_case: Case, _device: torch.device) -> Position:
    """None can be loaded."""
    raise PP3Error(NO_SGLANG)


OPEN: dict[str, Callable[[Case, torch.device], Position]] = {
    "torch-argmax": argmax,
    "torch-topk": topk,
    "torch-topk-draw": topk_draw,
    "flashinfer-probs": flashinfer_probs,
    "flashinfer-top-k": flashinfer_top_k,
    "flashinfer-top-k-first": flashinfer_top_k_first,
    "vllm-top-k": vllm_top_k,
    "vllm-gumbel": vllm_gumbel,
    "sglang-top-k": sglang_top_k,
}
WHOLE_VOCABULARY = ("vllm-gumbel",)  # may draw any token
LARGEST = {"torch-argmax": 1}
NAMES = [one.name for one in contenders(Part.SELECTOR) if one.name in OPEN]


def contestant(name: str, case: Case, logits: list[torch.Tensor]) -> Contestant:
    """A peer on the logits [depth, batch, vocab] of each set. Raises whatever opening it raises."""
    position = OPEN[name](case, logits[0].device)
    kept: dict[int, list[torch.Tensor]] = {}

    def step(at: int) -> None:
        kept[at] = [position(row) for row in logits[at]]

    def check(_rounds: int) -> str:
        if name in WHOLE_VOCABULARY:
            return ""
        most = LARGEST.get(name, SUPPORT)
        pairs = [pair for at, drawn in kept.items() for pair in zip(drawn, logits[at], strict=True)]
        strays = sum(stray(tokens, row, most) for tokens, row in pairs)
        return f"{strays:,} of its tokens are not among the {most} largest" if strays else ""

    return Contestant(name=name, step=step, check=check)


def stray(tokens: torch.Tensor, logits: torch.Tensor, most: int) -> int:
    """How many of the tokens [batch] or [batch, n] lie outside the `most` largest of their rows, ties included."""
    chosen = logits.gather(-1, tokens.long().view(len(logits), -1))
    least = logits.topk(most, dim=-1).values[:, -1:]
    return int((chosen < least).sum())


def _flashinfer() -> Any:
    try:
        return importlib.import_module("flashinfer").sampling
    except ImportError as error:
        raise PP3Error(f"{error.name or 'flashinfer'} is not installed") from None
