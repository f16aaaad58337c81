"""A campaign over the wire: slots in NumPy and on a device, faults as dealt, the law kept, and a path that lies.

The path is run for real, in a thread and in a process; `direct` is the same sampler without a path.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from wire_campaign import campaign

from pp3.harness import paired, run
from pp3.harness.campaign import plan_sha256
from pp3.harness.errors import VerificationError
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.contract import INVALIDATED
from pp3.harness.seeds import Seed
from pp3.harness.transport import faults, losses, stand_in, wire
from pp3.harness.transport.bench import SESSION, VOCAB, largest_round
from pp3.harness.transport.buffers import Proposals, Sparse
from pp3.harness.transport.faults import KINDS, OUT_OF, ROW_FAULTS, SHARES, Fault, deal
from pp3.harness.transport.frame import MAX_ROWS
from pp3.harness.transport.path import PathSampler
from pp3.harness.transport.place import Place
from pp3.harness.transport.refusal import FrameError
from pp3.harness.transport.slots import Round, Slots
from pp3.harness.transport.stage import ReferenceStage
from pp3.harness.transport.stage_kernels import KernelStage
from pp3.kernels.reference import ONE
from pp3.targets import build

SEED = Seed.of("5a" * 32, 11)


def losing(name: str) -> Any:
    """A target of which every other request loses its proposal."""
    return dataclasses.replace(build(name), patterns=("none", "every"))


@pytest.fixture(params=list(Place))
def sampler(request: pytest.FixtureRequest) -> Iterator[PathSampler]:
    """The reference over a path."""
    made = PathSampler(ReferenceStage(), request.param)
    yield made
    made.close()


def random_round(rng: np.random.Generator, slots: int, depth: int, vocab: int) -> Round:
    """Rows of every kind: legal, greedy, failed, spoilt, of slots twice or out of range."""
    n = int(rng.integers(1, 6))
    ids = np.sort(rng.permuted(np.tile(np.arange(vocab), (n, depth, 1)), axis=2)[..., :32], axis=2)
    tickets = rng.multinomial(ONE, np.full(32, 1 / 32), size=(n, depth))
    sampled = (rng.random(n) < 0.7).astype(np.int32)
    tickets[sampled == 0] = 0
    ids[sampled == 0] = np.arange(32)
    tokens = np.take_along_axis(ids, rng.integers(0, 32, (n, depth, 1)), axis=2)[..., 0]
    q = (tickets / ONE).astype(np.float32)
    for row in np.flatnonzero(rng.random(n) < 0.3):
        at = int(rng.integers(depth)), int(rng.integers(32))
        match rng.integers(5):
            case 0:
                ids[row][at] = rng.choice([-1, vocab, ids[row][at[0], 0]])
            case 1:
                q[row][at] = rng.choice([np.nan, -0.0, 2.0, 2.0**-25, 0.5])
            case 2:
                tokens[row, at[0]] = rng.choice([-1, vocab])
            case _:
                pass
    return Round(
        slots=rng.integers(-1, slots + 1, n),
        generation=rng.integers(1, 3, n),
        status=rng.choice([0, 0, 0, 1, 2], n).astype(np.int32),
        sampled=sampled,
        tokens=tokens.astype(np.int32),
        ids=ids.astype(np.int32),
        q=q,
    )


def test_slots_in_numpy_are_those_of_the_device(rng: np.random.Generator) -> None:
    """The same rounds, whatever is in them: status, drafts and dense q bit for bit."""
    slots, depth, vocab = 4, 2, 40
    here, there = Slots(slots, depth, vocab), Proposals(slots, depth, vocab, "cpu")
    for _ in range(40):
        landed = random_round(rng, slots, depth, vocab)
        tensors = Sparse(**{name: torch.from_numpy(values.copy()) for name, values in landed._asdict().items()})
        if rng.random() < 0.6:
            here.begin(landed.slots, landed.generation)
            there.begin(tensors.slots, tensors.generation)
        assert here.store(landed).tolist() == there.store(tensors).tolist()
        assert here.q.tobytes() == there.q.numpy().tobytes()
        if rng.random() < 0.6:
            asked = rng.integers(-1, slots + 1, 3), rng.integers(1, 3, 3)
            mine = here.take(*asked)
            assert mine.tolist() == there.take(*map(torch.from_numpy, asked)).tolist()
            assert here.q.tobytes() == there.q.numpy().tobytes()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 257])
def test_every_request_is_in_one_frame(size: int, rng: np.random.Generator) -> None:
    """Those that keep their proposal share frames with rows that fail; what loses a frame loses its own kind alone."""
    lost = rng.random(3_001) < 0.5
    dealt = deal(SEED, f"test/{size}", lost, size)
    placed = [row for frame in dealt.frames for row in frame.rows]
    assert sorted(placed) == list(range(len(lost)))
    assert max(len(frame.rows) for frame in dealt.frames) == min(size, MAX_ROWS)
    assert ((dealt.kinds >= 0) == lost).all()
    for frame in dealt.frames:
        kinds = {KINDS[kind] if kind >= 0 else None for kind in dealt.kinds[list(frame.rows)]}
        assert kinds == {frame.fault} if frame.fault else kinds <= {None, *ROW_FAULTS}
    assert sum(dealt.injected().values()) == lost.sum()


def test_faults_come_at_their_rates() -> None:
    """Each within six standard deviations of its share, which one in 10^9 is not."""
    n = 200_000
    counts = deal(SEED, "rates", np.ones(n, np.bool_), 4).injected()
    for kind, share in SHARES.items():
        p = share / OUT_OF
        assert abs(counts[kind.value] - n * p) < 6 * (n * p * (1 - p)) ** 0.5


def test_nothing_lost_and_nobody_there() -> None:
    """No requests, or none that loses anything."""
    assert deal(SEED, "none", np.zeros(0, np.bool_), 4).frames == []
    assert {frame.fault for frame in deal(SEED, "kept", np.zeros(9, np.bool_), 2).frames} == {None}


def test_a_spoilt_frame_is_refused(rng: np.random.Generator) -> None:
    """In each of its ways."""
    asked, reply = largest_round()
    frame, held = wire.encode(reply, asked.round, SESSION, 3), wire.Asked.by(asked, SESSION, 3, VOCAB)
    codes = Counter[str]()
    for pick in rng.integers(0, 2**63, 400).tolist():
        with pytest.raises(FrameError) as refused:
            wire.decode(stand_in.spoilt(frame, pick), held)
        codes[refused.value.code.value] += 1
    assert set(codes) == {"crc", "short", "long", "frame-session"}


@pytest.mark.parametrize("name", ["disjoint", "context"])
def test_what_arrives_emits_what_it_would_without_a_path(name: str, sampler: PathSampler) -> None:
    """Bit for bit: proposals that arrive change nothing, those that are lost are drafts of -1."""
    batch = sampled_batch(losing(name), 5, 3, SEED, 0, 240)
    over, direct = sampler.run(batch), ReferenceStage().direct(batch)
    for field in ("status", "tokens", "num_sampled", "proposed", "drafts"):
        assert np.array_equal(getattr(over, field), getattr(direct, field)), field
    assert (over.drafts[batch.given[:, 0] == INVALIDATED] == INVALIDATED).all()
    said = sampler.journey.plain()
    assert (said["rows"], said["altered"], losses.findings(said)) == (240, 0, [])
    assert min(said["injected"][kind.value] for kind in ROW_FAULTS) > 0


def test_pairs_at_temperature_zero_are_equal_over_the_path(sampler: PathSampler) -> None:
    """Greedy and sampled rows in one frame; greedy rows that lose their proposal too."""
    tally = paired.run(sampler, losing("disjoint"), 4, SEED, 1_000, 120)
    assert (tally.pairs, tally.mismatches) == (120, 0)
    said = sampler.journey.plain()
    assert 0 < said["sampled"] < said["rows"]
    assert sum(said["injected"].values()) > 0
    assert losses.findings(said) == []


def test_the_kernels_take_the_same_way() -> None:
    """Proposal, dense q by slot and verification by the kernels, in the interpreter: the reference's integers."""
    batch = sampled_batch(losing("disjoint"), 4, 2, SEED, 0, 12)
    kernels, reference = PathSampler(KernelStage("cpu"), Place.THREAD), PathSampler(ReferenceStage(), Place.THREAD)
    mine, other = kernels.run(batch), reference.run(batch)
    for field in ("status", "tokens", "num_sampled", "proposed", "drafts"):
        assert getattr(mine, field).numpy().tolist() == getattr(other, field).tolist(), field
    assert losses.findings(kernels.journey.plain()) == []
    kernels.close()
    reference.close()


def keeps_late(drafter: Any, asked: Any, frame: bytes) -> list[bytes]:
    """Delivers what was to be lost."""
    return [frame]


def loses_all(drafter: Any, asked: Any, frame: bytes) -> list[bytes]:
    """Corrupts every frame."""
    return [stand_in.spoilt(frame, 0)]


def test_a_proxy_that_is_replaced_gets_no_frame_of_the_one_before(
    sampler: PathSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds that nobody answers, often three in a row and late: each is lost as injected, and no other."""
    often = {Fault.FAILED: 1, Fault.TIMED_OUT: 1, Fault.CORRUPT: 2, Fault.MISSING: 2, Fault.LATE: 26}
    monkeypatch.setattr(faults, "EDGES", np.cumsum([often[kind] for kind in KINDS]))
    sampler.run(sampled_batch(losing("disjoint"), 4, 4, SEED, 0, 240))
    sampler.close()
    said = sampler.journey.plain()
    assert said["proxies"] > 1
    assert losses.findings(said) == []


PLANTED: dict[str, tuple[str, Any, str]] = {
    "what was to be lost arrives": ("deliver", keeps_late, "lost as"),
    "everything is lost": ("deliver", loses_all, "lost as"),
}


@pytest.mark.parametrize(("method", "fault", "said"), PLANTED.values(), ids=PLANTED)
def test_other_losses_than_injected_are_found(
    method: str, fault: Callable[..., Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the numbers that a receipt holds."""
    monkeypatch.setattr(stand_in.StandIn, method, fault)
    sampler = PathSampler(ReferenceStage(), Place.THREAD)
    sampler.run(sampled_batch(losing("disjoint"), 4, 4, SEED, 0, 200))
    sampler.close()
    found = losses.findings(sampler.journey.plain())
    assert any(said in one for one in found)
    assert any("otherwise than injected" in one for one in found)


def test_a_proposal_of_another_request_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows of a frame change places on the drafter's side: legal, and foreign."""
    produce = stand_in.StandIn.produce

    def swapped(drafter: Any, asked: Any) -> wire.Reply:
        reply = produce(drafter, asked)
        assert reply.ids is not None
        assert reply.q is not None
        if set(reply.status.tolist()) != {0} or len(reply.status) < 2:
            return reply
        turned = {name: getattr(reply, name)[::-1].copy() for name in ("tokens", "ids", "q")}
        return dataclasses.replace(reply, **turned)

    monkeypatch.setattr(stand_in.StandIn, "produce", swapped)
    sampler = PathSampler(ReferenceStage(), Place.THREAD)
    sampler.run(sampled_batch(build("disjoint"), 4, 2, SEED, 0, 40))
    sampler.close()
    said = sampler.journey.plain()
    assert said["altered"] > 0
    assert losses.findings(said) == [f"{said['altered']:,} proposals arrived as others than were sent"]


def test_what_a_run_injects_is_what_its_plan_implies() -> None:
    """Recomputed without running anything; and any other number is untrue."""
    chosen = campaign()
    seed = Seed.of(plan_sha256(chosen), 5)
    sampler = PathSampler(ReferenceStage(), chosen.place)
    measured = run.Measured(sampler=sampler.describe())
    run._campaign(chosen, seed, sampler, measured, lambda *_: None)
    sampler.close()
    said = sampler.journey.plain()
    assert losses.check(chosen, seed, said) == sum(said["injected"].values())
    assert losses.findings(said) == []
    for key in losses.DERIVED:
        other = said[key] + 1 if isinstance(said[key], int) else said[key] | {Fault.LATE.value: 99_999}
        with pytest.raises(VerificationError, match=key):
            losses.check(chosen, seed, said | {key: other})
    with pytest.raises(VerificationError, match="counted must name"):
        losses.check(chosen, seed, said | {"counted": {}})
