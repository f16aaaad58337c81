"""Bits: a backend's every output against the reference's, in a batch, alone, permuted and replayed.

Rows cover every dtype, every status, a vocabulary over three tiles of either kernel, ties across the 32nd place and
across tiles, signed zeros, subnormals, tau 0 and temperature 0. One differing integer is a mismatch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.backends import Arithmetic, Dtype, Reference
from pp3.harness.samplers.contract import Batch, Emission, Sampler
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.kernels.reference import FAILED, OK, ONE, SUPPORT

Array = npt.NDArray[Any]
Outputs = tuple[Array, ...]

PROPOSAL_VOCABS: tuple[int, ...] = (33, 97, 4097, 8300)  # 8,300 has three tiles of 4,096
VERIFY_VOCABS: tuple[int, ...] = (33, 1025, 2100)  # 2,100 has three tiles of 1,024
WIDE_PROPOSAL_VOCABS: tuple[int, ...] = (20_001, 163_840)  # of the launches for wide rows
WIDE_VERIFY_VOCABS: tuple[int, ...] = (20_001,)
COPIES = 4
WAYS = ("batch", "alone", "permuted", "replayed")
INTERPRETED_WAYS = WAYS[:-1]  # a CPU that computes the same again shows nothing that permuted rows do not
VERIFY_ROWS = 64
GPU_BITS_REQUESTS, INTERPRETED_REQUESTS = 32, 4  # of each target and depth of a campaign
SHARED_SEED = 20_261_129


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsResult:
    """How many rows were compared, how many of them differed, and the first that did."""

    id: str
    rows: int
    failed_rows: int  # rows whose status is `failed`, as it should be
    mismatches: int
    first: str

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {
            "failedRows": self.failed_rows,
            "first": self.first,
            "id": self.id,
            "mismatches": self.mismatches,
            "rows": self.rows,
        }


def edge_rows(vocab: int, rng: np.random.Generator) -> dict[str, tuple[Array, int]]:
    """One row of logits for each kind of input, FP32 [vocab], with the status it must have."""
    normal = rng.normal(0, 3, vocab).astype(np.float32)
    ties = np.round(normal)  # many equal values, across the 32nd place and across tiles
    border = np.full(vocab, -4, np.float32)
    border[:: max(1, vocab // 40)] = 1.0
    zeros = np.where(rng.random(vocab) < 0.5, np.float32(0.0), np.float32(-0.0))
    small = (rng.integers(-(1 << 20), 1 << 20, vocab)).astype(np.float32) * np.float32(2.0**-149)
    few = np.full(vocab, -np.inf, np.float32)
    few[rng.choice(vocab, 9, replace=False)] = normal[:9]
    one = np.full(vocab, -np.inf, np.float32)
    one[vocab - 1] = 2.0
    clustered = np.full(vocab, -9, np.float32)
    clustered[-SUPPORT - 1 :] = np.sort(normal)[-SUPPORT - 1 :]
    nan, plus, steep = normal.copy(), normal.copy(), normal * np.float32(40)
    nan[vocab // 2], plus[vocab - 1] = np.nan, np.inf
    return {
        "normal": (normal, OK),
        "ties": (ties, OK),
        "ties-at-the-border": (border, OK),
        "all-equal": (np.full(vocab, 1.5, np.float32), OK),
        "signed-zero": (zeros, OK),
        "subnormal": (small, OK),
        "nine-finite": (few, OK),
        "one-finite": (one, OK),
        "clustered": (clustered, OK),
        "steep": (steep, OK),
        "huge": (np.where(normal > 1, np.float32(3e38), np.float32(-3e38)), OK),  # differences overflow; so does FP16
        "nan": (nan, FAILED),
        "plus-inf": (plus, FAILED),
        "all-masked": (np.full(vocab, -np.inf, np.float32), FAILED),
    }


def proposal_bits(backend: Arithmetic, ways: tuple[str, ...] = WAYS, wide: bool = False) -> Iterator[BitsResult]:
    """Every kind of row in every dtype and vocabulary; wide ones too, which take an interpreter minutes."""
    rng = np.random.default_rng(SHARED_SEED)
    for vocab in PROPOSAL_VOCABS + WIDE_PROPOSAL_VOCABS * wide:
        for dtype in Dtype:
            cases = [case for _ in range(COPIES) for case in edge_rows(vocab, rng).values()]
            logits = stored(np.stack([row for row, _ in cases]), dtype)
            wanted = np.array([status for _, status in cases], np.int32)
            overflowed = np.isposinf(logits).any(axis=1)  # FP16 overflows to +inf: failed, too
            n = len(logits)
            sampled = np.arange(n) % 4 != 3
            keys, rounds, positions = (_words(rng, n) for _ in range(3))
            tau = {33: 1.3, 97: 0.0}.get(vocab, 0.7)

            def run(
                arithmetic: Arithmetic,
                rows: Array,
                inputs: tuple[Array, ...] = (logits, sampled, keys, rounds, positions),
                dtype: Dtype = dtype,
                tau: float = tau,
            ) -> Outputs:
                x, *rest = (value[rows] for value in inputs)
                return tuple(arithmetic.propose(x, dtype, rest[0], rest[1], rest[2], rest[3], tau))

            result = _in_ways(f"propose/{dtype.value}/vocab-{vocab}/tau-{tau}", run, backend, n, ways)
            wrong = Reference().propose(logits, dtype, sampled, keys, rounds, positions, tau).status
            if (wrong != np.where(overflowed, FAILED, wanted)).any():
                result = replace(result, mismatches=result.mismatches + 1, first="a row has not the status of its kind")
            yield result


def verify_bits(backend: Arithmetic, ways: tuple[str, ...] = WAYS, wide: bool = False) -> Iterator[BitsResult]:
    """Valid and invalid rounds of both depths, with the carrier and on the point-mass path; of wide rows too."""
    rng = np.random.default_rng(SHARED_SEED + 1)
    for vocab in VERIFY_VOCABS + WIDE_VERIFY_VOCABS * wide:
        for depth in (4, 5):
            inputs = verify_inputs(vocab, depth, VERIFY_ROWS, rng)
            for carrier in (True, False):

                def run(
                    arithmetic: Arithmetic,
                    rows: Array,
                    inputs: tuple[Array, ...] = inputs,
                    carrier: bool = carrier,
                ) -> Outputs:
                    probs, drafts, ids, tickets, *rest = (value[rows] for value in inputs)
                    law = (ids, tickets) if carrier else (None, None)
                    return tuple(arithmetic.verify(probs, drafts, law[0], law[1], rest[0], rest[1], rest[2], rest[3]))

                path = "carrier" if carrier else "point-mass"
                yield _in_ways(f"verify/{path}/vocab-{vocab}/depth-{depth}", run, backend, VERIFY_ROWS, ways)


def verify_inputs(vocab: int, depth: int, n: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """Rounds to verify: target rows, drafts, supports, tickets, sampled, three words. One in six is invalid."""
    weights = rng.integers(0, 9, (n, depth + 1, vocab)) * (rng.random((n, depth + 1, vocab)) < 0.3)
    weights[..., 0] += 1
    probs = (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)
    ids = np.sort(np.argsort(rng.random((n, depth, vocab)), axis=-1)[..., :SUPPORT], axis=-1).astype(np.int32)
    shares = rng.integers(1, 1000, (n, depth, SUPPORT)) * (rng.random((n, depth, SUPPORT)) < 0.8)
    shares[..., 0] += 1
    tickets = (shares * ONE // shares.sum(axis=-1, keepdims=True)).astype(np.int32)
    tickets[..., 0] += ONE - tickets.sum(axis=-1, dtype=np.int32)
    pick = rng.integers(0, SUPPORT, (n, depth, 1))
    drafts = np.take_along_axis(ids, pick, axis=-1)[..., 0]
    likely = probs[:, :depth].argmax(axis=-1)
    drafts = np.where(rng.random((n, depth)) < 0.4, likely, drafts).astype(np.int32)
    drafts[rng.random((n, depth)) < 0.1] = -1
    kind = np.arange(n)
    probs[kind % 24 == 1, depth, 3] = np.nan
    probs[kind % 24 == 5, 0, 4] = -0.25
    probs[kind % 24 == 9, 1] *= np.float32(1.01)
    probs[kind % 24 == 13, 2] = 1.0  # a row of ones, whose sum would wrap in 48-bit quanta
    drafts[kind % 24 == 17, 1] = vocab
    sampled = kind % 5 != 2
    return probs, drafts, ids, tickets, sampled, *(_words(rng, n) for _ in range(3))


def sampler_bits(
    sampler: Sampler, batches: list[tuple[str, Batch]], ways: tuple[str, ...] = WAYS, alone: int = 1 << 30
) -> Iterator[BitsResult]:
    """Campaign requests through the whole sampler: as launched, the first `alone` one by one, reversed, and again."""
    for name, batch in batches:
        order, step = np.arange(len(batch)), batch.rows_per_launch
        expected = _emitted(ReferenceSampler().run(batch))
        how = {
            "batch": (order, step),
            "alone": (order[:alone], 1),
            "permuted": (order[::-1], 3),
            "replayed": (order, step),
        }
        mismatches, first = 0, ""
        for way in ways:
            rows, launch = how[way]
            got = _emitted(sampler.run(batch.take(rows, launch)))
            wrong = _differ(got, tuple(field[rows] for field in expected))
            mismatches += len(wrong)
            first = first or (f"{way}: request {int(batch.requests[rows[wrong[0]]])}" if len(wrong) else "")
        yield BitsResult(id=name, rows=len(batch), failed_rows=0, mismatches=mismatches, first=first)


def _emitted(emission: Emission) -> Outputs:
    fields = [emission.status, emission.tokens, emission.num_sampled, emission.proposed, emission.drafts]
    fields += [emission.support, emission.tickets]
    return tuple(field if isinstance(field, np.ndarray) else field.cpu().numpy() for field in fields)


def _in_ways(
    name: str, run: Callable[[Arithmetic, Array], Outputs], backend: Arithmetic, n: int, chosen: tuple[str, ...]
) -> BitsResult:
    order = np.arange(n)
    expected = run(Reference(), order)
    ways = [("batch", order), ("permuted", order[::-1].copy()), ("replayed", order)]
    ways.append(("alone", order[n // 2 : n // 2 + 1]))
    mismatches, first = 0, ""
    for way, rows in ways:
        if way not in chosen:
            continue
        wrong = _differ(run(backend, rows), tuple(field[rows] for field in expected))
        mismatches += len(wrong)
        first = first or (f"{way}: row {int(rows[wrong[0]])}" if len(wrong) else "")
    failed = int((expected[0] == FAILED).sum())
    return BitsResult(id=name, rows=n, failed_rows=failed, mismatches=mismatches, first=first)


def _differ(got: Outputs, expected: Outputs) -> Array:
    wrong = np.zeros(len(expected[0]), np.bool_)
    for one, other in zip(got, expected, strict=True):
        wrong |= (one != other).reshape(len(wrong), -1).any(axis=1)
    return np.flatnonzero(wrong)


def stored(logits: Array, dtype: Dtype) -> Array:
    """Round FP32 logits to values that are exact in a dtype (BF16 by truncation: any exact value will do)."""
    if dtype is Dtype.BF16:
        cut = (logits.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return np.where(np.isnan(logits), np.float32(np.nan), cut)
    if dtype is Dtype.FP16:
        with np.errstate(over="ignore"):
            return logits.astype(np.float16).astype(np.float32)
    return logits


def _words(rng: np.random.Generator, n: int) -> Array:
    return rng.integers(0, 1 << 64, n, np.uint64)
