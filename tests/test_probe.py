"""The probe without a GPU: its plan, its arithmetic, its turns on a stand-in clock, and who can run here.

The interpreter stands in for the GPU: what it shows is the wiring. test_gpu_probe.py runs the real thing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stand_in_clock import Stand

from pp3.harness import cli
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.probe import bits, figures, floor, peers, plan, rows, run, timing, verifiers
from pp3.harness.probe.figures import conclude, quantile, spell
from pp3.harness.probe.plan import FLOOR, FLOOR_DEPENDENT, OURS, Cache, Case, Job, Kind, Mode, Part
from pp3.harness.probe.timing import Contestant, measure, rounds_run
from pp3.kernels.reference import SUPPORT

SELECTOR = Case(part=Part.SELECTOR, vocab=97, depth=2, batch=3, kind=Kind.TIES, cache=Cache.COLD)
VERIFIER = Case(part=Part.VERIFIER, vocab=64, depth=2, batch=3)


def nobody(name: str) -> Contestant:
    """A contestant that does nothing."""
    return Contestant(name=name, step=lambda _set: None, check=lambda _rounds: "")


def test_the_full_plan_is_the_issue_s() -> None:
    """Every vocabulary, depth and batch hot; the deepest cold; every other kind at the largest vocabulary."""
    found = plan.cases(Mode.FULL)
    assert len({case.id for case in found}) == len(found)
    selector = [case for case in found if case.part is Part.SELECTOR]
    hot = {(one.vocab, one.depth, one.batch) for one in selector if (one.kind, one.cache) == (Kind.RANDOM, Cache.HOT)}
    assert hot == {(v, d, b) for v in (129_280, 151_936, 163_840) for d in (4, 5) for b in (1, 2, 3, 4)}
    cold = {(one.vocab, one.depth, one.batch) for one in selector if one.cache is Cache.COLD}
    assert cold == {(v, 5, b) for v in (129_280, 151_936, 163_840) for b in (1, 2, 3, 4)}
    others = {(one.kind, one.batch) for one in selector if one.kind is not Kind.RANDOM}
    assert others == {(kind, b) for kind in Kind if kind is not Kind.RANDOM for b in (1, 2, 3, 4)}
    verifier = {(one.vocab, one.batch) for one in found if one.part is Part.VERIFIER}
    assert verifier == {*((163_840, batch) for batch in (1, 2, 3, 4)), (64, 200_000)}
    assert (plan.repetitions(Mode.FULL), plan.ROUNDS, plan.WARMUPS) == (100, 10, 3)
    assert {case.id for case in plan.cases(Mode.QUICK)} <= {case.id for case in found}


def test_no_round_of_a_cold_sample_finds_its_tensors_in_l2() -> None:
    """Each has tensors of its own, and more than L2 is overwritten before the sample."""
    assert plan.SETS >= plan.ROUNDS
    assert timing.FLUSH > 1
    assert {case.sets for case in plan.cases(Mode.FULL) if case.cache is Cache.COLD} == {plan.SETS}


def test_the_fewest_bytes_are_counted_once() -> None:
    """By hand: two positions of three rows; three rows of a verifier and what it carries."""
    drafted = 2 * 3 * (97 * 2 + 4 + 3 * 8 + 4 + 2 * SUPPORT * 4 + 4)
    assert SELECTOR.bytes_moved == drafted
    emitted = 3 * 4 + 2 * 4
    assert VERIFIER.bytes_moved == 3 * (3 * 64 * 4 + 2 * (4 + 2 * SUPPORT * 4) + 4 + 3 * 8 + emitted)


@pytest.mark.parametrize(
    ("samples", "hundredths", "right"),
    [([7], 5, 7), ([7], 95, 7), ([1, 2], 50, 1), ([3, 1, 2], 50, 2), (list(range(1, 101)), 5, 5)]
    + [(list(range(1, 101)), 50, 50), (list(range(100, 0, -1)), 95, 95), (list(range(1, 21)), 95, 19)],
)
def test_quantiles_are_samples(samples: list[int], hundredths: int, right: int) -> None:
    """Nearest rank: the k-th smallest with k = ceil(share * n)."""
    assert quantile(samples, hundredths) == right


def test_ratios_are_of_median_rounds() -> None:
    """A contestant of one round a sample against ours of ten, and the smaller floor."""
    case = plan.cases(Mode.QUICK)[0]
    timings = [
        {"id": FLOOR, "rounds": 10, "samples": [100, 100, 100]},
        {"id": FLOOR_DEPENDENT, "rounds": 10, "samples": [80, 90, 70]},
        {"id": OURS, "rounds": 10, "samples": [300, 200, 400]},
        {"id": "torch-topk", "rounds": 1, "samples": [90, 95, 85]},
    ]
    copy = {"bytes": 1000, "samples": [10, 30, 20]}
    [found] = figures.figures(Mode.QUICK, [{"id": case.id, "timings": timings}], copy)
    by_name = {line["id"]: line for line in found["lines"]}
    assert by_name[OURS] == {"id": OURS, "median": 300, "overFloor": "15/4", "overOurs": "1/1", "p05": 200, "p95": 400}
    assert by_name["torch-topk"]["overOurs"] == "3/1"
    assert by_name[FLOOR]["overFloor"] == "5/4"
    assert found["memoryNs"] == spell(Fraction(case.bytes_moved * 20, 1000))


def test_turns_change_and_every_replay_counts() -> None:
    """Each starts a repetition in turn; warm-ups are not sampled; a flush is outside the events."""
    clock = Stand({"a": 5, "b": 7})
    prepared = [clock.prepare(nobody(name), 1, 3) for name in ("a", "b")]
    found = measure(clock, prepared, 3, cold=True)
    assert found == {"a": [15] * 3, "b": [21] * 3}
    assert clock.said[:6] == ["a"] * plan.WARMUPS + ["b"] * plan.WARMUPS
    assert clock.said[6:] == ["flush", "a", "flush", "b", "flush", "b", "flush", "a", "flush", "a", "flush", "b"]
    assert rounds_run(prepared[0], 3) == 3 * (plan.WARMUPS + 3)


@pytest.mark.parametrize("kind", Kind)
def test_rows_are_of_their_kind_and_all_different(kind: Kind) -> None:
    """BF16, the same twice."""
    made = rows.make(kind, (2, 3, 500), "cpu")
    assert made.dtype == torch.bfloat16
    assert torch.equal(made, rows.make(kind, (2, 3, 500), "cpu"))
    flat = made.view(6, 500)
    assert len({tuple(row.tolist()) for row in flat}) == 6
    largest = flat.topk(SUPPORT, dim=1)
    if kind is Kind.SORTED:
        assert (flat[:, 1:] >= flat[:, :-1]).all()
    if kind is Kind.CLUSTERED:
        assert (flat[:, : rows.CLUSTER].min(dim=1).values >= flat[:, rows.CLUSTER :].max(dim=1).values).all()
        assert not (flat[:, 1:32] <= flat[:, :31]).all()
    if kind is Kind.TIES:
        assert (largest.values == largest.values[:, :1]).all()
    if kind is Kind.EQUAL:
        assert (flat == flat[:, :1]).all()


@dataclass(frozen=True)
class Timed:
    """What was seen of a small case, and what it was then."""

    case: Case
    seen: run.Observed
    rounds: int
    checked: int


@contextmanager
def few() -> Iterator[None]:
    """Two rounds, sets and turns in place of ten: the interpreter is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "ROUNDS", 2)
        patch.setattr(plan, "SETS", 2)
        patch.setattr(timing, "WARMUPS", 1)
        yield


@pytest.fixture(scope="module", params=[SELECTOR, VERIFIER], ids=["selector", "verifier"])
def timed(request: pytest.FixtureRequest) -> Timed:
    """A small case of each part, through the code that a GPU runs, in the interpreter."""
    return time_one(request.param)


def time_one(case: Case) -> Timed:
    """Time a case."""
    seen = run.Observed()
    with few(), np.errstate(all="ignore"):
        run.time_case(case, run.Maker("cpu").work(case, [case]), Stand({FLOOR: 10, OURS: 30}), 2, seen)
        return Timed(case=case, seen=seen, rounds=case.rounds, checked=case.checked)


def test_our_bits_are_compared_before_and_after(timed: Timed) -> None:
    """All rows of all sets, in outputs that held poison."""
    case, seen = timed.case, timed.seen
    assert [(row["id"], row["rows"]) for row in seen.bits] == [
        (f"{case.id}/{when}", timed.checked) for when in (plan.BEFORE, plan.AFTER)
    ]
    assert [row["mismatches"] for row in seen.bits] == [0, 0]


def test_who_can_run_here_is_timed_and_the_rest_has_a_reason(timed: Timed) -> None:
    """Nobody is left out in silence, and the order is the plan's."""
    case, seen = timed.case, timed.seen
    [row] = seen.cases
    names = [one["id"] for one in row["timings"]]
    known = [one.name for one in plan.contenders(case.part)]
    assert names == [name for name in known if name in names]
    assert {FLOOR, OURS} <= set(names)
    assert {f"{case.part}/{name}" for name in known if name not in names} == set(seen.absent)
    assert seen.absent[f"{case.part}/{FLOOR_DEPENDENT}"].startswith(floor.TOO_OLD)
    if case.part is Part.SELECTOR:
        assert {"torch-argmax", "torch-topk", "torch-topk-draw"} <= set(names)
    for one in row["timings"]:
        assert (len(one["samples"]), one["rounds"]) == (2, timed.rounds)


def test_a_bit_that_differs_leaves_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict is FAIL, with the row; and no figure follows."""
    wrong = {"failedRows": 0, "first": "row 3", "id": "x/after", "mismatches": 2, "rows": 9}
    found = conclude(Mode.QUICK, [wrong], [], {}, {"name": "pp3-top32", "version": "1"}, "GPU")
    assert found.verdict is figures.Outcome.FAIL
    assert found.reasons == ["x/after: 2 of 9 rows differ: row 3"]
    assert "no time is given" in found.sentence

    def altered(self: Any, at: int) -> None:
        original(self, at)
        self.outs[at].token[0, 0] += 1

    from pp3.harness.probe import selector

    original = selector.Ours.step
    monkeypatch.setattr(selector.Ours, "step", altered)
    assert [row["mismatches"] for row in time_one(SELECTOR).seen.bits] == [2, 2]


def test_an_output_that_nobody_wrote_differs() -> None:
    """Poison is no token."""
    right = [np.zeros((3, 2), np.int32)]
    row = bits.row_of("x", right, [np.full((3, 2), bits.POISON, np.int32)], np.zeros(3, np.bool_))
    assert (row["mismatches"], row["first"]) == (3, "row 0")
    with pytest.raises(ValueError, match="is compared with"):
        bits.row_of("x", right, [np.zeros((3, 1), np.int32)], np.zeros(3, np.bool_))


BAD: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "the smallest": (lambda logits: logits.argmin(dim=-1), "not among the 32 largest"),
    "the place in place of the token": (lambda logits: torch.zeros(len(logits), dtype=torch.int64), "not among"),
}


@pytest.mark.parametrize(("position", "said"), BAD.values(), ids=BAD)
def test_a_peer_that_draws_what_it_must_not_is_not_timed(
    position: Callable[[torch.Tensor], torch.Tensor], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times would compare another job."""
    monkeypatch.setitem(peers.OPEN, "torch-topk-draw", lambda _case, _device: position)
    logits = [torch.arange(2 * 3 * 97, dtype=torch.float32).view(2, 3, 97).bfloat16()]
    one = peers.contestant("torch-topk-draw", SELECTOR, logits)
    one.step(0)
    assert said in one.check(1)


def test_a_peer_s_error_is_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises, the others are timed."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("a  long\nstory " * 40)

    monkeypatch.setitem(verifiers.OPEN, "vllm-v2", broken)
    seen = time_one(VERIFIER).seen
    said = seen.absent["verifier/vllm-v2"]
    assert said.startswith("a long story a long")
    assert said.endswith(f"... (met in {VERIFIER.id})")
    assert OURS in [one["id"] for one in seen.cases[0]["timings"]]


def test_launches_that_do_not_wait_are_seen() -> None:
    """The count shows it."""
    empty = floor.Floor(3, "cpu")
    check = empty.checked()
    empty.plain(0)
    assert check(1) == ""
    assert check(2) == "3 of 6 launches counted: they did not wait"


def test_an_emission_that_no_round_has_is_seen() -> None:
    """A token outside the vocabulary, a length of zero."""
    tokens, lengths = torch.tensor([[64, -1, -1], [3, 4, 5], [1, -1, -1]]), torch.tensor([1, 3, 0])
    assert verifiers.stray(tokens, lengths, VERIFIER) == 2
    assert verifiers.stray(tokens, None, VERIFIER) == 1


def test_without_a_gpu_it_is_exit_69(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Before a folder is made."""
    assert cli.run(["probe", "--quick", "--out", str(tmp_path / "out")]) == Exit.UNAVAILABLE
    assert capsys.readouterr().err == f"pp3: error: {run.NO_GPU}\n"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PP3Error, match="compute capability 9"):
        floor.need_dependent("cpu")


def test_every_contender_can_be_opened_or_is_ours() -> None:
    """The plan's names and the code's are one list."""
    for part, known in ((Part.SELECTOR, peers.OPEN), (Part.VERIFIER, verifiers.OPEN)):
        named = [one.name for one in plan.contenders(part) if one.job in (Job.PART, Job.WHOLE)]
        assert named == list(known)
