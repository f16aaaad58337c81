"""vLLM's filters and plain draw of model runner V1: temperature, top-k, top-p, softmax, `random_sample`.

There are three implementations of the filters: a sort in torch, a Triton kernel, and from 0.30.0 Triton kernels that
split a row's top-p on a GPU, where a batch is small and the row has no top-k. A row without top-k has k = V, as vLLM's
input batch writes it. min-p lies in a file that is not loaded.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import torch

from pp3.harness.filter_rules import ENGINES
from pp3.harness.image.pins import Part
from pp3.harness.samplers.contract import Batch, Description, Kind, Randomness
from pp3.harness.samplers.vllm_image import Function, describe, open_part, seeded

FILTERS = ("temperature", "top_k", "top_p")
GIVEN = ("logits", "k", "p")
LEFT = ("allow_cpu_sync", "mask_value", "has_topp_only_rows")


class Mode(StrEnum):
    """Which implementation; the value is part of its name."""

    TORCH = "topk-topp"
    TRITON = "topk-topp-triton"
    SPLIT = "topk-topp-split"


SMALL = 64  # rows: the largest batch whose top-p is split


class TopKTopP:
    """One implementation of the filters, then vLLM's draw."""

    def __init__(self, image: Path | None, version: str, mode: Mode) -> None:
        self.mode = mode
        self.loaded = open_part(image, version, Part.TOPK_TOPP)
        suffix = "pytorch" if mode is Mode.TORCH else "triton"
        self.filters = Function(self.loaded, f"apply_top_k_top_p_{suffix}", GIVEN, LEFT)
        self.draw = Function(self.loaded, "random_sample", ("probs", "generators"), ("use_fp64_gumbel",))

    def describe(self) -> Description:
        """See the contract."""
        rules = ENGINES["vllm-torch" if self.mode is Mode.TORCH else "vllm-triton"]
        return describe(
            self.loaded,
            f"vllm-{self.mode}",
            kind=Kind.PLAIN,
            randomness=Randomness.GLOBAL,
            filters=FILTERS,
            order=str(rules.order),
            ties=str(rules.ties),
            top_p_ties=str(rules.top_p_ties),
            top_p_hit=str(rules.hit),
        )

    def run(self, batch: Batch) -> torch.Tensor:
        """One token a row."""
        logits = batch.logits / batch.temperature[:, None]
        vocab, k = logits.shape[1], batch.top_k
        if k is not None:
            k = torch.where((k <= 0) | (k > vocab), vocab, k)
        kept = torch.cat(
            [
                self.filters(logits=rows, k=_rows(k, at, len(rows)), p=_rows(batch.top_p, at, len(rows)))
                for at, rows in self._launches(logits)
            ]
        )
        with seeded(batch):
            tokens: torch.Tensor = self.draw(probs=kept.softmax(dim=-1, dtype=torch.float32), generators={})
        return tokens

    def _launches(self, logits: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """First row and rows of each launch."""
        size = SMALL if self.mode is Mode.SPLIT else len(logits)
        return ((at, logits[at : at + size]) for at in range(0, len(logits), size))


def _rows(setting: torch.Tensor | None, at: int, count: int) -> torch.Tensor | None:
    return None if setting is None else setting[at : at + count]


def by_sort(image: Path | None, version: str) -> TopKTopP:
    """The sort in torch."""
    return TopKTopP(image, version, Mode.TORCH)


def by_triton(image: Path | None, version: str) -> TopKTopP:
    """The Triton kernel."""
    return TopKTopP(image, version, Mode.TRITON)


def by_split(image: Path | None, version: str) -> TopKTopP:
    """The Triton kernels, in batches small enough for the split."""
    return TopKTopP(image, version, Mode.SPLIT)
