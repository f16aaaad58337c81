"""What a sampler declares of its filters, and what engines do.

Run on every case of targets/filtered.py: vLLM 0.33.0 (PyTorch), transformers 5.24.0, SGLang 0.5.23 (PyTorch) and mlx-lm
0.32.2, which meet their line of ENGINES. Read: vLLM 0.33.0 (Triton; also run, see below), FlashInfer 0.6.18.post1 and
0.7.2.post1, llama.cpp at 00efb3e1, Ollama at 00a948ad.
"""

from dataclasses import dataclass
from enum import StrEnum


class Order(StrEnum):
    """In which order filters are applied, each to what the one before it left, renormalised. Masks come before all."""

    MIN_P_FIRST = "min-p-first"  # temperature, min-p, top-k, top-p: vLLM
    TOP_K_FIRST = "top-k-first"  # temperature, top-k, top-p, min-p: transformers, FlashInfer by default, Ollama
    JOINT = "joint"  # temperature, top-k and top-p both of the whole row, min-p: FlashInfer "joint", SGLang
    TEMPERATURE_LAST = "temperature-last"  # top-k, top-p, min-p, temperature: llama.cpp
    TOP_P_FIRST = "top-p-first"  # top-p, min-p, top-k, temperature: mlx-lm


class Ties(StrEnum):
    """Which of the tokens of equal probability at a border are kept."""

    VALUE_ONLY = "value-only"  # as many as have room, whichever they are: claimed is what they sum to
    LOWER_ID = "lower-id"  # as many as have room, by id
    ALL_KEPT = "all-kept"  # all, more than k or p asks for


class Hit(StrEnum):
    """What follows a prefix whose share equals top_p."""

    STOPS = "stops"  # nothing: a token is kept while the sum before it is below p
    GOES_ON = "goes-on"  # one token more: a token is kept while the sum before it is at most p


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a sampler declares of its filters. Temperature 0 is an argmax whatever the order, its ties by `ties`.

    Raises ValueError for a joint order whose one sort would have two tie rules.
    """

    order: Order
    ties: Ties  # at the border of top-k; ALL_KEPT leaves the ties of an argmax open
    top_p_ties: Ties
    hit: Hit = Hit.STOPS

    def __post_init__(self) -> None:
        if self.order is Order.JOINT and {self.ties, self.top_p_ties} == {Ties.VALUE_ONLY, Ties.LOWER_ID}:
            raise ValueError(f"ties {self.ties} and {self.top_p_ties} in a joint order; one sort has one rule")


# vLLM has three kernels, by platform and request; its Triton one leaves a row whole whose tokens are all tied.
# "flashinfer-radix" is top_k_first with one k of at most 256 for all rows, and 65,536 tokens or more. SGLang runs on
# FlashInfer as "flashinfer-joint", and as "flashinfer" where a row has a min-p.
ENGINES: dict[str, Rules] = {
    "vllm-torch": Rules(order=Order.MIN_P_FIRST, ties=Ties.ALL_KEPT, top_p_ties=Ties.VALUE_ONLY),
    "vllm-triton": Rules(order=Order.MIN_P_FIRST, ties=Ties.LOWER_ID, top_p_ties=Ties.LOWER_ID),
    "vllm-flashinfer": Rules(order=Order.MIN_P_FIRST, ties=Ties.ALL_KEPT, top_p_ties=Ties.ALL_KEPT),
    "transformers": Rules(order=Order.TOP_K_FIRST, ties=Ties.ALL_KEPT, top_p_ties=Ties.VALUE_ONLY),
    "flashinfer": Rules(order=Order.TOP_K_FIRST, ties=Ties.ALL_KEPT, top_p_ties=Ties.ALL_KEPT),
    "flashinfer-radix": Rules(order=Order.TOP_K_FIRST, ties=Ties.VALUE_ONLY, top_p_ties=Ties.ALL_KEPT),
    "flashinfer-joint": Rules(order=Order.JOINT, ties=Ties.ALL_KEPT, top_p_ties=Ties.ALL_KEPT),
    "sglang-torch": Rules(order=Order.JOINT, ties=Ties.VALUE_ONLY, top_p_ties=Ties.VALUE_ONLY, hit=Hit.GOES_ON),
    "ollama": Rules(order=Order.TOP_K_FIRST, ties=Ties.VALUE_ONLY, top_p_ties=Ties.VALUE_ONLY, hit=Hit.GOES_ON),
    "llama.cpp": Rules(order=Order.TEMPERATURE_LAST, ties=Ties.VALUE_ONLY, top_p_ties=Ties.VALUE_ONLY),
    "mlx-lm": Rules(order=Order.TOP_P_FIRST, ties=Ties.VALUE_ONLY, top_p_ties=Ties.ALL_KEPT),
}
