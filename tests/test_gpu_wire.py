"""On a GPU: a round from state slots over a proxy to dense q, with no host synchronisation that CUDA is asked for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from proxy_rig import rounds

from pp3.harness.transport.buffers import Proposals, Sparse
from pp3.harness.transport.channel import Channel
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.gather import Gather, new_state
from pp3.harness.transport.layout import layout_of
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.place import Place
from pp3.harness.transport.proxy import ProcessProxy
from pp3.harness.transport.remote import drafted
from pp3.harness.transport.serve import Terms
from pp3.harness.transport.step import Row, Step
from pp3.harness.transport.worker import Worker

pytestmark = pytest.mark.gpu
ROUNDS = 40


class Landing:
    """Pinned memory that a round is put into before it goes to the GPU; used for one round only."""

    def __init__(self) -> None:
        n, depth = 4, rounds.DEPTH

        def pinned(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, pin_memory=True)

        self.fields = {
            "slots": pinned(n, dtype=torch.int64),
            "generation": pinned(n, dtype=torch.int64),
            "status": pinned(n),
            "sampled": pinned(n),
            "tokens": pinned(n, depth),
            "ids": pinned(n, depth, 32),
            "q": pinned(n, depth, 32, dtype=torch.float32),
        }

    def sparse(self, step: Step, found: Any) -> Sparse:
        """On the GPU, asynchronously."""
        given = {
            "slots": [row.slot for row in step.rows],
            "generation": [row.generation for row in step.rows],
            "status": found.status,
            "sampled": found.with_law,
            "tokens": found.drafts,
            "ids": found.ids,
            "q": found.q,
        }
        n = step.n
        for name, values in given.items():
            self.fields[name].numpy()[:n] = values
        return Sparse(**{name: held[:n].to("cuda", non_blocking=True) for name, held in self.fields.items()})


@pytest.mark.parametrize("place", list(Place))
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")  # that it is a prototype
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")  # of one cycle, which is all there is
def test_a_round_needs_no_host_synchronisation(place: Place, tmp_path: Path, rng: np.random.Generator) -> None:
    """Seed and T > 0 reach the drafter from the GPU in the same round; only small copies leave the GPU.

    The state's positions are moved on the GPU itself between rounds, so that the host could not know them.
    """
    met: list[Step] = []

    def produce(step: Step) -> Any:
        met.append(step)
        return rounds.reply_to(step)

    state = new_state(4, "cuda")
    seeds = torch.tensor(rng.integers(-(2**62), 2**62, 4), device="cuda")
    state[:, 0], state[:, 1] = seeds, torch.tensor([1, 0, 1, 1], device="cuda")
    orders = [rng.permutation(4)[: rng.integers(1, 5)].tolist() for _ in range(ROUNDS)]
    there = [torch.tensor(order, device="cuda") for order in orders]
    proposals = Proposals(4, rounds.DEPTH, rounds.VOCAB, "cuda")
    landings = [Landing() for _ in range(ROUNDS)]
    drafts: list[torch.Tensor] = []
    worker = Worker(rounds.MINE, rounds.DEPTH, produce)
    terms = Terms(mine=rounds.MINE, session=bytes(16), depth=rounds.DEPTH, vocab=rounds.VOCAB)
    channel = Channel(terms, place, worker.dial, 30.0, lambda ring: Gather(state, ring))
    channel.wait_ready()
    steps: list[Step] = []

    def one(number: int) -> None:
        slots = there[number]
        state[:, 2].index_add_(0, slots, torch.ones_like(slots))
        state[:, 3] += 7
        layout = layout_of(len(slots), rounds.DEPTH, Mode.SAMPLED)
        channel.submit_gathered(number, layout, orders[number], slots)
        found = drafted(channel.collect())
        assert found.cause is Cause.DELIVERED
        step = met[-1]  # as the drafter has it
        steps.append(step)
        landed = landings[number].sparse(step, found)
        proposals.begin(landed.slots, landed.generation)
        proposals.store(landed)
        drafts.append(proposals.take(landed.slots, landed.generation))

    one(0)  # kernels are compiled here
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        torch.cuda.set_sync_debug_mode("error")
        try:
            for number in range(1, ROUNDS):
                one(number)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()
    channel.close()
    worker.join()
    generations = [0] * 4
    flags, keys = [True, False, True, True], seeds.tolist()
    for number, (order, step, got) in enumerate(zip(orders, steps, drafts, strict=True)):
        for slot in order:
            generations[slot] += 1
        rows = tuple(
            Row(
                slot=slot,
                generation=generations[slot],
                position=7 * (number + 1),
                seed=keys[slot],
                sampled=flags[slot],
            )
            for slot in order
        )
        assert step == Step(mode=Mode.SAMPLED, round=number, depth=rounds.DEPTH, rows=rows)
        assert got.tolist() == [rounds.law_of(step, row)[0].tolist() for row in rows]
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    copies = [event["args"]["bytes"] for event in events if "DtoH" in event.get("name", "")]
    assert len(copies) >= 2 * (ROUNDS - 1)
    assert max(copies) < rounds.VOCAB, "a copy as large as a row of the vocabulary leaves the GPU"


def test_a_proxy_that_is_killed_takes_no_memory_from_under_the_gpu(rng: np.random.Generator) -> None:
    """Each of its rings is CUDA's until the GPU has written what it was asked to; the next proxy's rows arrive."""
    state = new_state(4, "cuda")
    state[:, 0], state[:, 1] = torch.arange(4, device="cuda"), 1
    met: list[Step] = []

    def produce(step: Step) -> Any:
        met.append(step)
        return rounds.reply_to(step)

    worker = Worker(rounds.MINE, rounds.DEPTH, produce)
    terms = Terms(mine=rounds.MINE, session=bytes(16), depth=rounds.DEPTH, vocab=rounds.VOCAB)
    channel = Channel(terms, Place.PROCESS, worker.dial, 0.5, lambda ring: Gather(state, ring))
    slots, layout = torch.arange(4, device="cuda"), layout_of(4, rounds.DEPTH, Mode.SAMPLED)
    causes = []
    for number in range(6):
        channel.wait_ready()
        state[:, 2] = number
        if number % 2:
            assert isinstance(channel.running, ProcessProxy)
            channel.running.process.kill()
            channel.running.process.wait()
        channel.submit_gathered(number, layout, [0, 1, 2, 3], slots)
        found = drafted(channel.collect())
        causes.append(found.cause)
        if found.cause is Cause.DELIVERED:
            rows = tuple(Row(slot=i, generation=number, position=0, seed=i, sampled=True) for i in range(4))
            assert met[-1] == Step(mode=Mode.SAMPLED, round=number, depth=rounds.DEPTH, rows=rows)
            assert found.drafts.tolist() == [rounds.law_of(met[-1], row)[0].tolist() for row in rows]
        else:
            assert (found.drafts == -1).all()
    assert causes == [Cause.DELIVERED, Cause.TIMED_OUT] * 3
    assert channel.proxies == 4
    torch.cuda.synchronize()
    channel.close()
    worker.join()
