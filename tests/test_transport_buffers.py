"""Proposals by state slot: dense q against NumPy, and nothing used twice, stale, foreign or out of range."""

from typing import Any

import numpy as np
import pytest
import torch

from pp3.harness.transport.buffers import SEMANTIC, Proposals, Sparse, q_of
from pp3.harness.transport.ranks import Alone
from pp3.kernels import scatter
from pp3.kernels.reference import FAILED, MAX_VOCAB, OK, ONE, SUPPORT

SLOTS, DEPTH, VOCAB = 7, 3, 67
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def sparse(rng: np.random.Generator, slots: list[int], generation: int = 1, device: str = "cpu") -> Sparse:
    """A legal round of sampled rows, one for each slot; tickets down to 0."""
    n = len(slots)
    ids = np.sort(rng.permuted(np.tile(np.arange(VOCAB), (n, DEPTH, 1)), axis=2)[..., :SUPPORT], axis=2)
    tickets = rng.multinomial(ONE, np.r_[np.full(SUPPORT - 2, 1 / (SUPPORT - 2)), 0, 0], size=(n, DEPTH))
    token = np.take_along_axis(ids, tickets.argmax(axis=2)[..., None], axis=2)[..., 0]

    def put(values: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    return Sparse(
        slots=put(slots, torch.int64),
        generation=put([generation] * n, torch.int64),
        status=put([OK] * n, torch.int32),
        sampled=put([1] * n, torch.int32),
        tokens=put(token, torch.int32),
        ids=put(ids, torch.int32),
        q=q_of(put(tickets, torch.int32)),
    )


def begun(rng: np.random.Generator, slots: list[int], device: str = "cpu") -> tuple[Proposals, Sparse]:
    """Buffers in which generation 1 has begun in these slots, and its round."""
    proposals, landed = Proposals(SLOTS, DEPTH, VOCAB, device), sparse(rng, slots, device=device)
    proposals.begin(landed.slots, landed.generation)
    return proposals, landed


def dense(*rounds: Sparse) -> np.ndarray[Any, Any]:
    """What q is when these rounds have landed, in NumPy."""
    held = np.zeros((SLOTS, DEPTH, VOCAB), np.float32)
    for one in rounds:
        for slot, ids, q in zip(one.slots.tolist(), one.ids.cpu().numpy(), one.q.cpu().numpy(), strict=True):
            held[slot] = 0
            np.put_along_axis(held[slot], ids.astype(np.int64), q, axis=1)
    return held


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("slots", [[], [3], [6, 0, 2, 5], [4, 1, 0, 6, 3, 2, 5]])
def test_by_slot(slots: list[int], device: str, rng: np.random.Generator) -> None:
    proposals, landed = begun(rng, slots, device)
    assert proposals.store(landed).tolist() == [OK] * len(slots)
    assert (proposals.q.cpu().numpy() == dense(landed)).all()
    order = torch.tensor(rng.permutation(len(slots)), device=device)  # another batch order
    drafts = proposals.take(landed.slots[order], landed.generation[order])
    assert torch.equal(drafts, landed.tokens[order])
    assert (proposals.q.cpu().numpy() == dense(landed)).all()  # for the verification that follows
    absent = sorted(set(range(SLOTS)) - set(slots))
    assert proposals.carrier.pp3_failed.cpu()[absent].tolist() == [1] * len(absent)  # type: ignore[attr-defined]
    assert proposals.carrier.pp3_failed.cpu()[slots].tolist() == [0] * len(slots)  # type: ignore[attr-defined]
    assert proposals.carrier.pp3_semantic == SEMANTIC  # type: ignore[attr-defined]


@pytest.mark.parametrize("device", DEVICES)
def test_handed_over_once(device: str, rng: np.random.Generator) -> None:
    proposals, landed = begun(rng, [2, 5], device)
    proposals.store(landed)
    proposals.take(landed.slots, landed.generation)
    assert proposals.take(landed.slots, landed.generation).tolist() == [[-1] * DEPTH] * 2
    assert not proposals.q.any()


@pytest.mark.parametrize("device", DEVICES)
def test_who_sits_a_round_out(device: str, rng: np.random.Generator) -> None:
    """A slot that is not in a batch keeps its proposal; the next round of others neither lends nor takes one."""
    proposals, landed = begun(rng, [2, 5, 0], device)
    proposals.store(landed)
    one = torch.tensor([5], device=device)
    generation = torch.tensor([1], device=device)
    assert torch.equal(proposals.take(one, generation), landed.tokens[1:2])
    again = sparse(rng, [5], device=device)
    proposals.store(again)
    assert torch.equal(proposals.take(one, generation), again.tokens)
    assert torch.equal(proposals.take(landed.slots, landed.generation)[[0, 2]], landed.tokens[[0, 2]])


@pytest.mark.parametrize("device", DEVICES)
def test_a_new_generation_takes_nothing_over(device: str, rng: np.random.Generator) -> None:
    proposals, landed = begun(rng, [2, 5], device)
    proposals.store(landed)
    newcomer = torch.tensor([5], device=device)
    proposals.begin(newcomer, torch.tensor([2], device=device))
    assert not proposals.q[5].any()
    assert proposals.q[2].any()
    assert proposals.valid.tolist() == [0, 0, 1, 0, 0, 0, 0]
    late = sparse(rng, [5], generation=1, device=device)  # of the one before
    assert proposals.store(late).tolist() == [FAILED]
    assert proposals.take(newcomer, torch.tensor([2], device=device)).tolist() == [[-1] * DEPTH]
    fresh = sparse(rng, [5], generation=2, device=device)
    proposals.store(fresh)
    assert proposals.take(newcomer, torch.tensor([1], device=device)).tolist() == [[-1] * DEPTH]  # asked for the old
    assert not proposals.q[5].any()


def test_slots_that_nobody_began_hold_nothing(rng: np.random.Generator) -> None:
    proposals, landed = Proposals(SLOTS, DEPTH, VOCAB, "cpu"), sparse(rng, [1])
    assert proposals.store(landed).tolist() == [FAILED]
    assert not proposals.q.any()


SPOILT = [  # what, field, index within the row, value
    ("failed", "status", (), FAILED),
    ("timed out", "status", (), 2),
    ("id below", "ids", (1, 0), -1),
    ("id of the vocabulary", "ids", (2, SUPPORT - 1), VOCAB),
    ("id far beyond", "ids", (0, SUPPORT - 1), 2**31 - 1),
    ("id twice", "ids", (0, 1), "previous"),
    ("q NaN", "q", (0, 3), np.nan),
    ("q infinite", "q", (0, 3), np.inf),
    ("q negative", "q", (1, 3), -(2.0**-24)),
    ("q -0.0", "q", (1, SUPPORT - 1), -0.0),
    ("q above 1", "q", (1, 3), 1 + 2.0**-23),
    ("q off the grid", "q", (2, SUPPORT - 1), 2.0**-25),
    ("a ticket too many", "q", (2, SUPPORT - 1), 2.0**-24),
    ("a ticket too few", "q", (0, 0), "less"),
    ("token without mass", "tokens", (1,), "empty"),
    ("token of no support", "tokens", (0,), "outside"),
    ("token below", "tokens", (2,), -1),
    ("token beyond", "tokens", (2,), VOCAB),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("what", "field", "at", "value"), SPOILT, ids=[row[0] for row in SPOILT])
def test_a_spoilt_row_fails_alone(
    what: str, field: str, at: tuple[int, ...], value: Any, device: str, rng: np.random.Generator
) -> None:
    proposals, landed = begun(rng, [6, 0, 3], device)
    whole = dense(landed)
    row = getattr(landed, field)[1]
    if value == "previous":
        value = row[0, 0]
    elif value == "less":
        value = row[0, 0] - 2.0**-24
    elif value == "empty":
        value = landed.ids[1, at[0], SUPPORT - 1]
    elif value == "outside":
        value = min(set(range(VOCAB)) - set(landed.ids[1, at[0]].tolist()))
    row[at] = value
    assert proposals.store(landed).tolist() == [OK, FAILED, OK]
    whole[0] = 0
    assert (proposals.q.cpu().numpy() == whole).all()
    drafts = proposals.take(landed.slots, landed.generation)
    assert drafts[1].tolist() == [-1] * DEPTH
    assert torch.equal(drafts[[0, 2]], landed.tokens[[0, 2]])
    assert proposals.carrier.pp3_failed[landed.slots].tolist() == [0, 1, 0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("device", DEVICES)
def test_greedy_rows(device: str, rng: np.random.Generator) -> None:
    """Greedy rows land without q; their ids are judged all the same, and they may have no tickets."""
    proposals, landed = begun(rng, [6, 0, 3, 1], device)
    landed.sampled[:] = torch.tensor([0, 0, 1, 0], device=device)
    landed.q[[0, 1, 3]] = 0
    landed.ids[[0, 1, 3]] = torch.arange(SUPPORT, dtype=torch.int32, device=device)
    landed.q[3, 0, 0] = 1
    only = dense(landed)
    only[[6, 0, 1]] = 0
    landed.ids[1, DEPTH - 1, SUPPORT - 1] = VOCAB
    assert proposals.store(landed).tolist() == [OK, FAILED, OK, FAILED]
    assert (proposals.q.cpu().numpy() == only).all()
    drafts = proposals.take(landed.slots, landed.generation)
    assert torch.equal(drafts[[0, 2]], landed.tokens[[0, 2]])
    assert drafts[[1, 3]].tolist() == [[-1] * DEPTH] * 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("slot", [-1, SLOTS, 2**62])
def test_slots_out_of_range(slot: int, device: str, rng: np.random.Generator) -> None:
    proposals, landed = begun(rng, [2, 4], device)
    landed.slots[0] = slot
    assert proposals.store(landed).tolist() == [FAILED, OK]
    whole = dense(sparse(rng, []))
    np.put_along_axis(whole[4], landed.ids[1].cpu().numpy().astype(np.int64), landed.q[1].cpu().numpy(), axis=1)
    assert (proposals.q.cpu().numpy() == whole).all()
    assert proposals.take(landed.slots, landed.generation)[0].tolist() == [-1] * DEPTH


@pytest.mark.parametrize("device", DEVICES)
def test_two_rows_of_one_slot(device: str, rng: np.random.Generator) -> None:
    proposals, landed = begun(rng, [2, 4, 5], device)
    landed.slots[2] = 2
    assert proposals.store(landed).tolist() == [FAILED, OK, FAILED]
    assert not proposals.q[2].any()
    proposals, landed = begun(rng, [2, 4], device)
    proposals.store(landed)
    both = landed.slots[[0, 0]]
    assert proposals.take(both, landed.generation).tolist() == [[-1] * DEPTH] * 2
    proposals, landed = begun(rng, [2, 4], device)
    proposals.begin(both, torch.tensor([1, 1], device=device))
    assert proposals.store(landed).tolist() == [FAILED, OK]


def test_alone_nothing_is_mirrored(rng: np.random.Generator) -> None:
    landed = sparse(rng, [1, 2])
    same = landed.mirrored(Alone())
    assert same.ids is landed.ids


BAD: list[tuple[str, Any, str]] = [
    ("slots", torch.zeros(2, dtype=torch.int32), r"slots is \(2,\) torch.int32; want contiguous \[2\] torch.int64"),
    ("status", torch.zeros(3, dtype=torch.int32), r"status is \(3,\)"),
    ("ids", torch.zeros(2, DEPTH, 31, dtype=torch.int32), r"ids is \(2, 3, 31\)"),
    ("q", torch.zeros(2, DEPTH, SUPPORT, dtype=torch.bfloat16), r"q is .* torch.bfloat16; want .* torch.float32"),
    ("dense", torch.zeros(SLOTS, DEPTH, VOCAB, dtype=torch.float16), r"dense q is .* torch.float16"),
    ("dense", torch.zeros(VOCAB, DEPTH, SLOTS).permute(2, 1, 0), r"dense q is .*; want contiguous"),
    ("dense", torch.zeros(SLOTS, DEPTH, 31), r"vocabulary 31 is outside \[32, 262144\]"),
    ("dense", torch.zeros(1, 1, MAX_VOCAB + 1), r"vocabulary 262145 is outside"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_what_the_launcher_refuses(name: str, value: Any, message: str, rng: np.random.Generator) -> None:
    one = sparse(rng, [1, 2])
    fields = ("slots", "status", "sampled", "tokens", "ids", "q")
    given = {field: getattr(one, field) for field in fields} | {"dense": torch.zeros(SLOTS, DEPTH, VOCAB)}
    with pytest.raises(ValueError, match=message):
        scatter.scatter(**(given | {name: value}))


def test_a_vocabulary_of_several_tiles(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """One past a tile, with the ids at its ends."""
    monkeypatch.setattr(scatter, "INTERPRETED_TILE", 64)
    held = torch.full((2, 1, 129), 5.0)
    ids = torch.tensor([[[*range(1, 31), 64, 128]]], dtype=torch.int32)
    q = torch.full((1, 1, SUPPORT), 2.0**-5)
    ints: Any = {"dtype": torch.int32}
    one = torch.ones(1, **ints)
    judged = scatter.scatter(torch.tensor([1]), one * 0, one, torch.tensor([[64]], **ints), ids, q, held)
    assert judged.tolist() == [OK]
    want = torch.zeros(129)
    want[ids[0, 0].long()] = 2.0**-5
    assert torch.equal(held[1, 0], want)
    assert (held[0] == 5).all()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")  # that it is a prototype
def test_no_host_synchronisation(rng: np.random.Generator) -> None:
    proposals, landed = begun(rng, [2, 5], "cuda")
    proposals.store(landed)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        proposals.begin(landed.slots, landed.generation)
        proposals.store(landed)
        drafts = proposals.take(landed.slots, landed.generation)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(drafts, landed.tokens)
