"""Rows of logits for the proposal, in three dtypes, at vocabularies around its tile borders and at those of models."""

import numpy as np

from pp3.harness.backends import Dtype
from pp3.harness.exact.company import COMPANIES, Array, Met, Run, addresses, count, met
from pp3.harness.exact.draws import hashed

SMALL = (32, 33, 127, 128, 129, 4095, 4096, 4097, 8191, 8192, 8193, 12_289, 12_301, 16_384, 16_385)
MODELS = (129_280, 151_936, 163_840, 248_320)
MOST_MANY = 16_384
LAYOUTS = ("padded", "strided", "offset", "shared", "fresh")
WAYS = (*COMPANIES, *LAYOUTS, "replayed", "among-many")
COMPARED, FAILING = 6, 3
GREEDY = (4, 5)  # rows at temperature 0
SUBNORMAL = {Dtype.FP32: 2.0**-140, Dtype.BF16: 2.0**-130, Dtype.FP16: 2.0**-18}  # times at most 8


def vocabularies(gpu: bool) -> tuple[int, ...]:
    """Sizes met on a device: the CPU leaves the largest to a GPU."""
    return SMALL + MODELS if gpu else SMALL


def ways(gpu: bool, vocab: int) -> tuple[str, ...]:
    """Company on any device; on a GPU the layouts, graph replay and, up to four tiles, thousands of rows."""
    if not gpu:
        return COMPANIES
    return WAYS if vocab <= MOST_MANY else WAYS[:-1]


def meet(run: Run, gpu: bool, vocab: int) -> Met:
    """The rows of a vocabulary in every way of a device."""
    return met(run, ways(gpu, vocab), COMPARED, FAILING)


def size(gpu: bool) -> int:
    """Rows compared for all vocabularies and dtypes."""
    return len(Dtype) * sum(count(ways(gpu, vocab), COMPARED) for vocab in vocabularies(gpu))


class Rows:
    """All rows of one vocabulary and dtype: those compared, those that fail, and the first under other keys."""

    def __init__(self, vocab: int, dtype: Dtype) -> None:
        compared = logits(vocab, dtype)
        failing = np.repeat(compared[:1], FAILING, axis=0)
        failing[0, vocab // 2], failing[1, vocab - 1], failing[2] = np.nan, np.inf, -np.inf
        self.dtype = dtype
        self.logits = np.concatenate([compared, failing, compared])
        self.sampled = ~np.isin(np.arange(len(self.logits)), (*GREEDY, *(COMPARED + FAILING + row for row in GREEDY)))
        self.keys, self.rounds, self.positions = addresses(len(self.logits))


def logits(vocab: int, dtype: Dtype) -> Array:
    """FP32 [6, vocab], exact in `dtype`: bell-shaped; ties across tiles and the 32nd place; subnormals; mostly masked.

    The last two, for temperature 0, are the ties and the bell again.
    """
    bell = hashed(f"invariance-{vocab}", vocab, 2.0)
    ties = np.full(vocab, -2, np.float32)
    ties[:: max(1, vocab // 40)] = 1.0
    ties[vocab - 1] = 1.0
    small = (bell * np.float32(SUBNORMAL[dtype])).astype(np.float32)
    masked = np.full(vocab, -np.inf, np.float32)
    masked[[0, vocab // 2, vocab - 1]] = (0.5, 0.5, 1.0)
    return cut(np.stack([bell, ties, small, masked, ties, bell]), dtype)


def cut(values: Array, dtype: Dtype) -> Array:
    """FP32 values made exact in a dtype: BF16 by truncation, FP16 rounded."""
    if dtype is Dtype.BF16:
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype(np.float16).astype(np.float32) if dtype is Dtype.FP16 else values
