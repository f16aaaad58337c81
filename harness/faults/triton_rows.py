"""Few rows on which kernels are held to the reference, bit for bit: chosen so that each kind of fault shows on a CPU.

Every check returns the first difference in a line, or "" where there is none. Addressed draws are reached through the
inverse of Philox, as the exact enumerations do.
"""

import tempfile
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pp3.harness import conform
from pp3.harness.backends import Dtype, Kernels
from pp3.harness.bits import edge_rows, stored, verify_inputs
from pp3.harness.errors import CampaignError
from pp3.harness.exact import draws as all_draws
from pp3.harness.exact import edges as all_edges
from pp3.harness.inversion import invert
from pp3.harness.paths import find_vectors
from pp3.kernels import reference
from pp3.kernels.reference import ONE, TAU

Array = npt.NDArray[Any]
U64 = npt.NDArray[np.uint64]
SEED = 20_261_130
KEY = 0x5EED0F0DDF00D5ED
PROPOSED = ((33, 1.3), (97, TAU), (4097, TAU))  # vocabulary and tau: one tile, one tile, two tiles
JUDGED = ((33, 4, 48), (1100, 4, 24))  # vocabulary, depth and rounds: one tile, two tiles
WIDE, WIDE_ROUNDS = 16_400, 24  # vocabulary and rounds of the launches for wide rows
WIDE_KINDS = ("normal", "signed-zero", "clustered", "all-equal", "nan", "ties-at-the-border")
EDGED = "invalidated", "disjoint"  # targets of 97 tokens: shared support, and none, where a coin of 0 decides
ENDS = 32  # ends of running sums of each kind
STRIDE = 1_431_655_766  # elements between rows: in 32 bits, that of row 3 is 2
FAR_ROWS, VOCAB = 4, 40


class Launchers(Kernels):
    """The launchers of two modules on a CPU, as harness/backends.Kernels has those of pp3.kernels."""

    def __init__(self, proposal: ModuleType, verifier: ModuleType) -> None:
        super().__init__("cpu")
        self.modules: tuple[Any, Any] = (proposal, verifier)

    def propose(
        self, logits: Array, dtype: Dtype, sampled: Array, keys: Array, rounds: Array, positions: Array, tau: float
    ) -> reference.Proposal:
        """See harness/backends.Arithmetic."""
        storage = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16, Dtype.FP32: torch.float32}[dtype]
        return self.draft(torch.tensor(logits).to(storage), sampled, keys, rounds, positions, tau)

    def draft(
        self, logits: torch.Tensor, sampled: Array, keys: Array, rounds: Array, positions: Array, tau: float = TAU
    ) -> reference.Proposal:
        """One draft a row of logits as they lie."""
        words = (self._int64(value) for value in (keys, rounds, positions))
        with np.errstate(all="ignore"):  # masked lanes are NumPy's
            drafts = self.modules[0].propose(logits, self._int32(sampled), *words, tau)
        status, token, ids, tickets = (field.numpy() for field in drafts)
        return reference.Proposal(status, token[:, 0], ids[:, 0], tickets[:, 0])

    def verify(
        self,
        target_probs: Array,
        draft_ids: Array,
        support: Array | None,
        tickets: Array | None,
        sampled: Array,
        keys: Array,
        rounds: Array,
        positions: Array,
    ) -> reference.Verification:
        """See harness/backends.Arithmetic."""
        rows = torch.tensor(target_probs)
        return self.judge(rows, draft_ids, support, tickets, sampled, keys, rounds, positions)

    def judge(
        self,
        target_probs: torch.Tensor,
        draft_ids: Array,
        support: Array | None,
        tickets: Array | None,
        sampled: Array,
        keys: Array,
        rounds: Array,
        positions: Array,
    ) -> reference.Verification:
        """One verdict a request of target rows as they lie."""
        carrier = [None if part is None else self._int32(part) for part in (support, tickets)]
        words = (self._int64(value) for value in (keys, rounds, positions))
        with np.errstate(all="ignore"):
            found = self.modules[1].verify(target_probs, self._int32(draft_ids), *carrier, self._int32(sampled), *words)
        return reference.Verification(*(field.numpy() for field in found))


def bits(launchers: Launchers) -> str:
    """Rows of every kind and status, sampled and at temperature 0, one and two tiles wide."""
    rng = np.random.default_rng(SEED)
    for vocab, tau in PROPOSED:
        logits = np.stack([row for _ in range(2) for row, _ in edge_rows(vocab, rng).values()])
        sampled, words = np.arange(len(logits)) % 4 != 3, _words(rng, len(logits))
        got = launchers.propose(logits, Dtype.FP32, sampled, *words, tau)
        if said := _differ(f"propose/vocab-{vocab}", got, reference.propose(logits, sampled, *words, tau)):
            return said
    for vocab, depth, count in JUDGED:
        rows = verify_inputs(vocab, depth, count, rng)
        if said := _differ(f"verify/vocab-{vocab}", launchers.verify(*rows), reference.verify(*rows)):
            return said
    rows = _deep(rng)
    return _differ("verify/deep", launchers.verify(*rows), reference.verify(*rows))


def wide(launchers: Launchers) -> str:
    """Some kinds of wide rows of BF16, sampled and at temperature 0, and rounds over wide rows."""
    rng = np.random.default_rng(SEED + 1)
    rows = edge_rows(WIDE, rng)
    logits = np.stack([stored(rows[kind][0], Dtype.BF16) for kind in WIDE_KINDS])
    sampled, words = np.arange(len(logits)) % 4 != 3, _words(rng, len(logits))
    got = launchers.propose(logits, Dtype.BF16, sampled, *words, TAU)
    if said := _differ("propose/wide", got, reference.propose(logits, sampled, *words, TAU)):
        return said
    rounds = verify_inputs(WIDE, 4, WIDE_ROUNDS, rng)
    return _differ("verify/wide", launchers.verify(*rounds), reference.verify(*rounds))


def answers(launchers: Launchers) -> str:
    """The known answers of a proposal. CampaignError where this copy of pp3 has none."""
    folder = find_vectors()
    if folder is None:
        raise CampaignError("no known answers here: they come with an installed pp3 and with a checkout")
    found = conform.run(folder / "propose.json", launchers)
    first = found.first_difference
    return f"{found.file}: {first.case}: {first.field}" if first else ""


def draws(launchers: Launchers) -> str:
    """The first and the last draw value of every token that has tickets, of one row."""
    logits = all_draws.hashed("planted", 97, 2.0)
    tickets = reference.allocate(logits[None]).tickets[0].astype(np.int64)
    after = np.cumsum(tickets)[tickets > 0]
    values = np.concatenate([after - tickets[tickets > 0], after - 1])
    words = np.zeros((len(values), 4), np.uint32)
    words[:, 0] = values << 8
    rows = np.repeat(logits[None], len(values), axis=0)
    sampled, keys, (rounds, positions) = (
        np.ones(len(rows), np.bool_),
        np.full(len(rows), KEY, np.uint64),
        invert(words, KEY),
    )
    got = launchers.propose(rows, Dtype.FP32, sampled, keys, rounds, positions, TAU)
    return _differ("draws", got, reference.propose(rows, sampled, keys, rounds, positions))


def edges(launchers: Launchers) -> str:
    """Coins on both sides of each acceptance edge, and draws at the ends of running sums of every emission."""
    for pair in all_edges.pairs(EDGED):
        if not pair.id.endswith("row-0"):
            continue
        coins = np.array(all_edges.accepting(pair), np.uint64)
        places = np.concatenate([pair.drawable, pair.drawable])
        w0 = np.concatenate([np.maximum(coins, 1) - 1, np.minimum(coins, all_edges.W32 - 1)])
        worst = int(pair.drawable[int(np.argmin(coins))])
        _, residual = all_edges.ends(pair, "residual")
        _, whole = all_edges.ends(pair, "full-target")
        blocks = [(int(pair.ids[place]), int(coin), 0) for place, coin in zip(places, w0, strict=True)]
        blocks += [(int(pair.ids[worst]), all_edges.W32 - 1, word) for word in residual[:ENDS]]
        blocks += [(-1, 0, word) for word in whole[:ENDS]]
        n = len(blocks)
        words = np.array([(coin, w64 & 0xFFFFFFFF, w64 >> 32, 0) for _, coin, w64 in blocks], np.uint32)
        probs = np.broadcast_to((pair.weights / ONE).astype(np.float32), (n, 2, len(pair.weights))).copy()
        support, tickets = (
            np.broadcast_to(part.astype(np.int32), (n, 1, len(part))).copy() for part in (pair.ids, pair.tickets)
        )
        drafts = np.array([[draft] for draft, _, _ in blocks], np.int32)
        keys = np.full(n, KEY, np.uint64)
        inputs = (probs, drafts, support, tickets, np.ones(n, np.bool_), keys, *invert(words, KEY))
        if said := _differ(pair.id, launchers.verify(*inputs), reference.verify(*inputs)):
            return said
    return ""


def columns(launchers: Launchers) -> str:
    """The columns of a round, one launch each, against positions one after the other."""
    proposal, rng, n, depth = launchers.modules[0], np.random.default_rng(SEED + 1), 8, 3
    logits = rng.normal(0, 2, (n, VOCAB)).astype(np.float32)
    sampled, words = np.ones(n, np.bool_), _words(rng, n)
    out = proposal.empty_drafts(n, depth, torch.device("cpu"))
    for column in range(depth):
        given = (launchers._int64(value) for value in words)
        with np.errstate(all="ignore"):
            proposal.propose(torch.tensor(logits), launchers._int32(sampled), *given, out=out, column=column)
    for column in range(depth):
        one = reference.propose(logits, sampled, words[0], words[1], words[2] + np.uint64(column))
        got = reference.Proposal(out.status.numpy(), *(field[:, column].numpy() for field in out[1:]))
        if said := _differ(f"column {column}", got, one):
            return said
    return ""


def far_rows(launchers: Launchers) -> str:
    """Rows that lie 1.4 * 2^30 elements apart, in a file of holes; 32 bits would take each for another."""
    rng = np.random.default_rng(SEED + 2)
    logits = rng.normal(0, 2, (FAR_ROWS, VOCAB)).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    before = 1 << 31  # what an address that wrapped can reach
    with tempfile.TemporaryFile() as file:
        file.truncate(2 * (before + (FAR_ROWS - 1) * STRIDE + VOCAB))
        held = np.memmap(file, np.int16, "r+")
        for row, values in enumerate(logits):
            held[before + row * STRIDE :][:VOCAB] = (values >> np.uint32(16)).astype(np.uint16).view(np.int16)
        far = torch.from_numpy(held).view(torch.bfloat16).as_strided((FAR_ROWS, VOCAB), (STRIDE, 1), before)
        sampled, words = np.ones(FAR_ROWS, np.bool_), _words(rng, FAR_ROWS)
        expected = reference.propose(logits.view(np.float32), sampled, *words)
        said = _differ("far rows", launchers.draft(far, sampled, *words), expected)
    return said or _far_positions(launchers, rng)


def _far_positions(launchers: Launchers, rng: np.random.Generator) -> str:
    """Wide target rows whose positions lie as far apart, those of one position side by side."""
    probs, *rest = verify_inputs(WIDE, 3, WIDE_ROUNDS, rng)
    probs[:, :3] = 0
    for position in range(3):  # the drafts are certain: a row read elsewhere rejects
        probs[np.arange(WIDE_ROUNDS), position, rest[0][:, position] % WIDE] = 1
    before = 1 << 31
    with tempfile.TemporaryFile() as file:
        file.truncate(4 * (before + 3 * STRIDE + WIDE_ROUNDS * WIDE))
        held = np.memmap(file, np.float32, "r+")
        for position in range(4):
            held[before + position * STRIDE :][: WIDE_ROUNDS * WIDE] = probs[:, position].ravel()
        far = torch.from_numpy(held).as_strided((WIDE_ROUNDS, 4, WIDE), (WIDE, STRIDE, 1), before)
        return _differ("far positions", launchers.judge(far, *rest), reference.verify(probs, *rest))


def _deep(rng: np.random.Generator) -> tuple[Array, ...]:
    """Rounds that go on: drafts of a proposal of which the target is a mixture, three quarters, with another law."""
    n, depth = ENDS, 4
    logits = rng.normal(0, 1, (n * (depth + 1), VOCAB)).astype(np.float32)
    sampled = np.ones(len(logits), np.bool_)
    drafted = reference.propose(logits, sampled, *_words(rng, len(logits)))
    law = np.zeros(logits.shape, np.int64)
    np.put_along_axis(law, drafted.ids.astype(np.int64), drafted.tickets.astype(np.int64), axis=1)
    probs = ((3 * law + law[::-1]) / (4 * ONE)).astype(np.float32).reshape(n, depth + 1, VOCAB)
    token, ids, tickets = (
        np.ascontiguousarray(field.reshape(n, depth + 1, *field.shape[1:])[:, :depth]) for field in drafted[1:]
    )
    return probs, token, ids, tickets, sampled[:n], *_words(rng, n)


def _words(rng: np.random.Generator, n: int) -> tuple[U64, U64, U64]:
    """Keys, rounds and positions [n]."""
    keys, rounds, positions = rng.integers(0, 1 << 64, (3, n), np.uint64)
    return keys, rounds, positions


def _differ(where: str, got: Any, expected: Any) -> str:
    """The first field and row that differ of two named tuples of arrays [n, ...]."""
    for name, one, other in zip(expected._fields, got, expected, strict=True):
        rows = np.flatnonzero((one != other).reshape(len(other), -1).any(axis=1))
        if len(rows):
            return f"{where}: {name} of row {rows[0]}, and of {len(rows) - 1} more"
    return ""
