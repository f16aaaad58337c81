"""Run a probe: every case of a mode, our bits first, then all contestants in turn, then our bits again.

A peer that cannot be had, fails, or emits what it must not is absent from the case, and the reason is kept once, with
the case it was met in. Ours and the plain floor must run. No time is kept once a bit differs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.probe import plan
from pp3.harness.probe.plan import FLOOR, FLOOR_DEPENDENT, Case, Mode, Part
from pp3.harness.probe.timing import Clock, Contestant, Prepared, measure, rounds_run

NO_GPU = "no CUDA GPU is visible, and the probe times one: run it on a machine that has one"
MOST_SAID = 160  # characters of a peer's error that are kept
Progress = Callable[[str, int, int], None]


class Mine(Protocol):
    """Our own rounds of a case."""

    def step(self, at: int) -> None:
        """One round on a set."""

    def poison(self) -> None:
        """Fill the outputs with what no round writes."""

    def compared(self, when: str) -> dict[str, Any]:
        """The outputs against the reference, in receipt form."""

    def contestant(self) -> Contestant:
        """To be timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One case, made: our rounds, and how to open each peer."""

    mine: Mine
    peers: dict[str, Callable[[], Contestant]]
    device: str


@dataclass(slots=True, kw_only=True)
class Observed:
    """What a probe saw."""

    bits: list[dict[str, Any]] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    bandwidth: dict[str, Any] = field(default_factory=dict)


def observe(mode: Mode, progress: Progress) -> Observed:
    """Every case of a mode on this machine's GPU. PP3Error (69) without one."""
    from pp3.harness.probe import bandwidth
    from pp3.harness.probe.timing import Gpu

    need_gpu()
    seen, clock, made = Observed(), Gpu(), Maker()
    found = plan.cases(mode)
    for done, case in enumerate(found):
        progress("cases", done, len(found))
        time_case(case, made.work(case, found), clock, plan.repetitions(mode), seen)
    seen.bandwidth = bandwidth.measure()
    progress("cases", len(found), len(found))
    if any(row["mismatches"] for row in seen.bits):
        seen.cases = []
    return seen


def need_gpu() -> None:
    """PP3Error (69) unless torch and triton are here and see a GPU, and kernels are compiled for it."""
    from pp3.harness import backends

    if not backends.cuda_available():
        raise PP3Error(NO_GPU, Exit.UNAVAILABLE)
    backends.start(backends.Backend.CUDA)


class Maker:
    """Makes cases; keeps the tensors of one vocabulary and kind, which many cases share."""

    def __init__(self, device: str = "cuda") -> None:
        self.device = device
        self._key: Any = None
        self._table: Any = None

    def work(self, case: Case, among: list[Case]) -> Work:
        """A case; `among` are all that will be asked for."""
        if case.part is Part.VERIFIER:
            from pp3.harness.probe import verifiers

            self._key = self._table = None
            judged = verifiers.make(case, self.device)
            mine: Mine = verifiers.Ours(case, judged)
            rivals = {name: _later(verifiers.contestant, name, case, judged) for name in verifiers.NAMES}
            return Work(mine=mine, peers=rivals, device=self.device)
        from pp3.harness.probe import peers, selector

        key = (case.vocab, case.kind)
        if self._key != key:
            self._table = None  # so that its memory is free for the next
            alike = [one for one in among if one.part is case.part and (one.vocab, one.kind) == key]
            sets, depth, batch = (max(getattr(one, name) for one in alike) for name in ("sets", "depth", "batch"))
            self._table, self._key = selector.table(case.vocab, case.kind, sets, depth, batch, self.device), key
        ours = selector.Ours(case, self._table)
        rivals = {name: _later(peers.contestant, name, case, ours.logits) for name in peers.NAMES}
        return Work(mine=ours, peers=rivals, device=self.device)


def time_case(case: Case, work: Work, clock: Clock, repetitions: int, seen: Observed) -> None:
    """One case into what was seen."""
    mine = work.mine
    mine.poison()
    for at in range(case.sets):
        mine.step(at)
    clock.wait()
    seen.bits.append(mine.compared(plan.BEFORE))
    ours = clock.prepare(mine.contestant(), case.sets, case.rounds)
    if not ours.launches or ours.rounds != case.rounds:
        raise PP3Error(f"{case.id}: our round was not captured as a graph of {case.rounds} rounds", Exit.INTERNAL)
    prepared = [*_floors(ours.launches, work.device, case, clock, seen), ours]
    for name, opened in work.peers.items():
        try:
            prepared.append(clock.prepare(opened(), case.sets, case.rounds))
        except Exception as error:  # whatever a peer raises is its own
            _leave(seen, case, name, error)
    mine.poison()
    samples = measure(clock, prepared, repetitions, cold=case.cache is plan.Cache.COLD)
    seen.bits.append(mine.compared(plan.AFTER))
    timings = []
    for one in prepared:
        wrong = one.contestant.check(rounds_run(one, repetitions))
        if wrong and one.contestant.name == FLOOR:
            raise PP3Error(f"{case.id}: the floor: {wrong}", Exit.INTERNAL)
        if wrong:
            _leave(seen, case, one.contestant.name, wrong)
            continue
        name = one.contestant.name
        timings.append(
            {
                "id": name,
                "launches": one.launches,
                "method": one.method.value,
                "rounds": one.rounds,
                "samples": samples[name],
            }
        )
    seen.cases.append({"id": case.id, "timings": timings})


def _floors(launches: int, device: str, case: Case, clock: Clock, seen: Observed) -> list[Prepared]:
    """Empty launches, in stream order and by programmatic dependent launch."""
    from pp3.harness.probe import floor

    found = []
    for name in (FLOOR, FLOOR_DEPENDENT):
        empty = floor.Floor(launches, device)
        try:
            if name == FLOOR_DEPENDENT:
                floor.need_dependent(device)
            step = empty.plain if name == FLOOR else empty.dependent
            one = clock.prepare(Contestant(name=name, step=step, check=lambda _rounds: ""), 1, case.rounds)
        except Exception as error:
            if name == FLOOR:
                raise
            _leave(seen, case, name, error)
            continue
        timed = Contestant(name=name, step=step, check=empty.checked())
        found.append(
            Prepared(contestant=timed, method=one.method, rounds=one.rounds, launches=one.launches, replay=one.replay)
        )
    return found


def _leave(seen: Observed, case: Case, name: str, why: object) -> None:
    """Say why somebody is absent: the first reason, and the case it was met in."""
    said = " ".join(str(why).split()) or type(why).__name__
    short = said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]}..."
    key = f"{case.part}/{name}"
    seen.absent.setdefault(key, f"{short} (met in {case.id})")


def _later(function: Callable[..., Contestant], *given: Any) -> Callable[[], Contestant]:
    return lambda: function(*given)
