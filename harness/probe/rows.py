"""Rows of logits of every kind, BF16, all of them different, made on the device from a seed."""

import math

import torch

from pp3.harness.probe.plan import Kind

SPREAD = 4.0  # standard deviation of random logits
LEVELS = 4  # values that rows of heavy ties have
CLUSTER = 64  # of the largest values, dealt to the lowest ids
SEED = 0x5050_3350


def make(kind: Kind, shape: tuple[int, ...], device: str) -> torch.Tensor:
    """Logits [..., vocab] of a kind: the same for the same kind, shape and device."""
    draw = torch.Generator(device).manual_seed(SEED + list(Kind).index(kind))
    vocab = shape[-1]
    if kind is Kind.EQUAL:
        rows = torch.arange(math.prod(shape[:-1]), device=device)
        return (rows.float() / 8).bfloat16().view(*shape[:-1], 1).expand(shape).contiguous()
    if kind is Kind.TIES:
        return torch.randint(LEVELS, shape, generator=draw, device=device).bfloat16()
    logits = torch.randn(shape, generator=draw, device=device).mul_(SPREAD).bfloat16()
    if kind is Kind.SORTED:
        return logits.sort(dim=-1).values
    if kind is Kind.CLUSTERED:
        many = min(CLUSTER, vocab)
        values, ids = logits.topk(many, dim=-1)
        low = logits[..., :many].clone()
        logits.scatter_(-1, ids, low)
        order = torch.rand(values.shape, generator=draw, device=device).argsort(dim=-1)
        logits[..., :many] = values.gather(-1, order)
    return logits
