"""Rows of logits of every kind, BF16, all of them different, made on the device from a seed."""

import math

import torch

from pp3.harness.probe.plan import Kind

SPREAD = 4.0  # standard deviation of random logits
LEVELS = 4  # values that rows of heavy ties have
CLUSTER = 64  # of the largest values, dealt to the lowest ids
SEED = 0x5050_3350


def make(kind: Kind, shape: tuple[int, ...], device: str) -> torch.Tensor:
    """Logits [..., vocab] of a kind, vocab 64 or more: the same for the same kind, shape and device."""
    draw = torch.Generator(device).manual_seed(SEED + list(Kind).index(kind))
    if kind is Kind.EQUAL:
        rows = torch.arange(math.prod(shape[:-1]), device=device)
        return (rows.float() / 8).bfloat16().view(*shape[:-1], 1).expand(shape).contiguous()
    if kind is Kind.TIES:
        return torch.randint(LEVELS, shape, generator=draw, device=device).bfloat16()
    logits = torch.randn(shape, generator=draw, device=device).mul_(SPREAD).bfloat16()
    if kind is Kind.SORTED:
        return logits.sort(dim=-1).values
    if kind is Kind.CLUSTERED:
        falling = logits.sort(dim=-1, descending=True).values
        parts = (falling[..., :CLUSTER], falling[..., CLUSTER:])
        return torch.cat([_shuffled(part, draw) for part in parts], dim=-1)
    return logits


def _shuffled(values: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """The values of each row in an order of its own."""
    order = torch.rand(values.shape, generator=draw, device=values.device).argsort(dim=-1)
    return values.gather(-1, order)
