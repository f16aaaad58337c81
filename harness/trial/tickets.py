"""A pair as a sampler of tickets sees it: drafts by `dyadic24-floor-first-v1` from BF16 logits, integers over 2^24.

The draft logits of a row are log-probabilities times tau, rounded to BF16; the law of its drafts is the tickets that
they get (semantics section 2), so that no rounding is left between the carrier and the law. A support is wider than a
pair: tokens that neither law has are dealt among its own, by a hash of its name.
"""

import hashlib
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pp3.kernels.reference import TAU, allocate
from pp3.targets.pairs import Pair, Weights
from pp3.targets.target import ONE

VOCAB = 40  # above the 32 tokens of a support, so that some lie outside of it
HALF = 0x7FFF  # half a unit of BF16 in FP32 bits, less the lowest


def ticketed(pair: Pair) -> tuple[Pair, npt.NDArray[np.float32]]:
    """The pair over VOCAB tokens with tickets for its proposal, and the draft logits [rows, VOCAB], exact in BF16.

    Where target and proposal are equal both are the tickets. Every sampled request has temperature tau, which is the
    only one that a ticket knows. ValueError for a pair of more than VOCAB tokens.
    """
    if pair.vocab > VOCAB:
        raise ValueError(f"{pair.name}: {pair.vocab} tokens; want at most {VOCAB}")
    at = places(pair.name)[: pair.vocab]
    with np.errstate(divide="ignore"):
        logits = nearest_bf16(np.log(_spread(pair.draft_weights, at) / ONE) * float(np.float32(TAU)))
    supports = allocate(logits)
    tickets = np.zeros(logits.shape, np.int64)
    np.put_along_axis(tickets, supports.ids.astype(np.int64), supports.tickets.astype(np.int64), axis=1)
    equal = (pair.weights == pair.draft_weights).all()
    padded = replace(
        pair,
        weights=tickets.copy() if equal else _spread(pair.weights, at),
        draft_weights=tickets,
        context_of=_spread(pair.context_of[None], at)[0],
        temperatures=tuple(TAU if heat else 0.0 for heat in pair.temperatures),
    )
    return padded, logits


def places(name: str) -> npt.NDArray[np.int64]:
    """A permutation of VOCAB places: token t of the pair of this name lies at places(name)[t]."""
    stream = hashlib.shake_128(f"pp3/tickets/{name}".encode()).digest(8 * VOCAB)
    return np.argsort(np.frombuffer(stream, "<u8"), kind="stable")


def nearest_bf16(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """FP32 values rounded to BF16, to nearest even; finite ones of normal size, and infinities."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded: npt.NDArray[np.float32] = (bits + HALF + (bits >> 16 & 1) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded


def _spread(rows: Weights, at: npt.NDArray[np.int64]) -> Weights:
    """Columns [rows, vocab] at their places of VOCAB, zero elsewhere."""
    spread = np.zeros((len(rows), VOCAB), np.int64)
    spread[:, at] = rows
    return spread
