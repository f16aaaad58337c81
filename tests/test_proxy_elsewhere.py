"""Rows of a round that are written elsewhere: asked for as admitted, and a writer that ends before its memory."""

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from proxy_rig import Rig, nothing_left, rigged, rounds

from pp3.harness.transport import admission
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.layout import layout_of
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.place import Place
from pp3.harness.transport.records import RECORD_BYTES
from pp3.harness.transport.remote import drafted
from pp3.harness.transport.ring import Ring
from pp3.harness.transport.speculator import GuardedSpeculator
from pp3.harness.transport.step import Row, Step


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    """No shared memory, descriptor, thread or child is left."""
    with nothing_left():
        yield


@pytest.fixture(params=list(Place))
def rig(request: pytest.FixtureRequest, rng: np.random.Generator) -> Iterator[Rig]:
    """Not started; ended whatever happens."""
    with rigged(request.param, rng) as made:
        yield made


class Elsewhere:
    """Rows that the host does not write itself: here, from a list of steps."""

    def __init__(self, ring: Ring, steps: list[Step]) -> None:
        self.ring, self.steps, self.ended = ring, steps, 0

    def issue(self, entry: int, ticket: int, slots: list[int]) -> None:
        """See channel.Writer."""
        rows = self.ring.rows(entry, len(slots))
        for i, row in enumerate(self.steps[-1].rows):
            assert row.slot == slots[i]
            position = row.position - (1 << 64 if row.position >> 63 else 0)
            rows[i] = row.seed, row.sampled, row.generation, position
        self.ring.stamp(entry)[0] = ticket

    def close(self) -> None:
        """See channel.Writer: the memory must still be there."""
        self.ring.stamp(0)[0] = 0
        self.ended += 1


def test_the_guarded_entry_asks_only_for_what_was_admitted(rig: Rig) -> None:
    """Depth, mode and slots of the session."""
    engine = admission.Engine(
        sampler_marker=admission.SAMPLER_MARKER, runner_marker=admission.RUNNER_MARKER, depths=(5,), slots=2
    )
    granted = admission.admit(engine, {admission.ENGINE_SWITCH: "1"})
    steps: list[Step] = []
    rig.attach = lambda ring: Elsewhere(ring, steps)
    rig.start()
    speculator = GuardedSpeculator(granted, rig.channel)
    row = Row(slot=1, generation=1, position=0, sampled=True)
    step = Step(mode=Mode.SAMPLED, round=1, depth=5, rows=(row,))
    for other in (
        replace(step, depth=4),
        replace(step, mode=Mode.UNSAMPLED, rows=(replace(row, sampled=False),)),
        replace(step, rows=(replace(row, slot=2),)),
    ):
        with pytest.raises(ValueError, match="admitted"):
            speculator.submit(other)
    speculator.submit(step)
    rounds.check(step, speculator.collect())
    steps.append(replace(step, round=2))
    for slots in ([2], [-1]):
        with pytest.raises(ValueError, match="admitted"):
            speculator.submit_gathered(2, slots, slots)
    speculator.submit_gathered(2, [1], [1])
    found = speculator.collect()
    assert found.cause is Cause.DELIVERED
    rounds.check(steps[0], found)


def test_a_writer_ends_before_the_memory_that_it_writes_to(rig: Rig) -> None:
    """One a ring; a proxy that is replaced takes none of it away from under a writer."""
    steps: list[Step] = []
    made: list[Elsewhere] = []

    def attach(ring: Ring) -> Elsewhere:
        made.append(Elsewhere(ring, steps))
        return made[-1]

    rig.attach = attach
    rig.start()
    for number in range(1, 7):
        step = rig.step()
        steps.append(step)
        if number == 3:
            os.write(rig.channel.incarnation.pipes.records, b"\xff" * RECORD_BYTES)
        layout = layout_of(step.n, step.depth, step.mode)
        rig.channel.submit_gathered(number, layout, [row.slot for row in step.rows], [row.slot for row in step.rows])
        found = drafted(rig.channel.collect())
        rounds.check(step, found)
        assert found.cause is (Cause.FOREIGN if number == 3 else Cause.DELIVERED)
        rig.channel.wait_ready()
    assert [writer.ended for writer in made] == [1, 0]
    rig.close()
    assert [writer.ended for writer in made] == [1, 1]
    rig.channel = None


def test_rows_from_elsewhere_need_a_writer(rig: Rig) -> None:
    """Or nothing would ever be stamped."""
    rig.start()
    with pytest.raises(ValueError, match="no writer"):
        rig.channel.submit_gathered(1, layout_of(1, 5, Mode.SAMPLED), [0], [0])
    rig.round()
