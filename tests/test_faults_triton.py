"""Faults in the text of the kernels: each is planted, each is seen on a few rows, and the unchanged text is right."""

import sys
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from pp3.harness.faults.triton_fault import TextFault
from pp3.harness.faults.triton_text import FAULTS, FILES, HOME, SEEN_BY, Outcome, edited, few_rows, planted, run_on
from pp3.harness.samplers.own import Kernels
from pp3.harness.verdict import Verdict
from pp3.kernels import philox, proposal, verifier

BY_ID = {fault.id: fault for fault in FAULTS}
OF_TRIALS = {"token", "full-target", "bonus", "length", "proposal", "accept", "kept", "residual", "prefix", "match"}
OF_TRIALS |= {"pair", "length-pair", "recovery", "joint", "forbidden", "breach", "invalid"}
OF_ENUMERATIONS = {f"exact:{name}" for name in ("draws", "edges", "exponential", "counters", "invariance", "pairs")}
SMOKE = (
    "accept-le",
    "draw-of-the-first-position",
    "tickets-rounded",
    "wide-not-read-again",
)  # one of each launcher's, and of what is rare
ENDS_CUDA = {"draw-inclusive-sum"}  # on a GPU its ids lie outside, and reading by them ends the trial before any count
OF_A_TRIAL = [fault for fault in FAULTS if fault.witness in OF_TRIALS]
ALL = [pytest.param(fault, id=fault.id, marks=() if fault.id in SMOKE else pytest.mark.soak) for fault in FAULTS]


def test_there_are_enough_and_each_has_a_name_and_a_witness() -> None:
    assert len(BY_ID) == len(FAULTS) >= 20
    assert {fault.file for fault in FAULTS} == set(FILES) - {
        "exponential",
        "search",
        "verifier",
    }  # it launches rejection
    assert {fault.seen for fault in FAULTS} == set(SEEN_BY)
    for fault in FAULTS:
        assert fault.witness in OF_TRIALS | OF_ENUMERATIONS | {"bits", "answers", "wide"}, fault.id
        assert fault.about, fault.id
        assert fault.report, fault.id


@pytest.mark.parametrize("fault", FAULTS, ids=BY_ID)
def test_its_text_stands_in_its_file_once(fault: TextFault) -> None:
    """Whoever changes the kernels brings the faults along."""
    before = (HOME / f"{fault.file}.py").read_text("utf-8")
    text = edited(fault.file, fault)
    assert text != before
    assert text.replace(fault.new, fault.old, 1) == before or text.count(fault.new) > 1
    for file in set(FILES) - {fault.file}:
        assert edited(file, fault) == (HOME / f"{file}.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("old", "times"), [("a text that is not there", 0), ("tl.load(", 16), ("ROUNDS = tl.constexpr(10)", 0)]
)
def test_a_text_that_does_not_stand_there_once_is_refused(old: str, times: int) -> None:
    fault = replace(BY_ID["accept-le"], old=old)
    with pytest.raises(ValueError, match=f"fault accept-le: kernels/rejection.py holds .* {times} times; want once"):
        edited("rejection", fault)
    with pytest.raises(ValueError, match="want once"), planted(fault):
        pass


def test_a_text_that_stays_as_it_is_is_refused() -> None:
    fault = BY_ID["accept-le"]
    with pytest.raises(ValueError, match="another text in its place"):
        edited("rejection", replace(fault, new=fault.old))


def test_the_real_kernels_are_left_alone() -> None:
    """A copy has modules of its own, its own imports among them, and leaves nothing behind."""
    before = set(sys.modules)
    with planted(BY_ID["philox-1-round"]) as (copied, judging):
        assert copied.__name__ == "pp3_planted_philox_1_round.proposal"
        assert copied.philox is judging.rejection.philox is not philox
        assert (copied.philox.ROUNDS.value, philox.ROUNDS.value) == (1, 10)
        assert copied.__file__ is not None
        home = Path(copied.__file__).parent
        assert home != HOME
        assert {copied, judging}.isdisjoint({proposal, verifier})
        made_of = dict(Kernels(copied, judging).describe().files)
        assert (
            made_of["pp3_planted_philox_1_round/philox.py"] != dict(Kernels().describe().files)["pp3/kernels/philox.py"]
        )
    assert set(sys.modules) == before
    assert not home.exists()


def test_the_unchanged_text_is_right_on_every_few_rows() -> None:
    assert few_rows(None) == dict.fromkeys(SEEN_BY, "")


@pytest.mark.parametrize("fault", ALL)
def test_a_few_rows_show_it(fault: TextFault) -> None:
    assert few_rows(fault, (fault.seen,))[fault.seen]


def test_what_only_chosen_draws_show_is_no_matter_of_bits() -> None:
    """So the enumerations are there for something."""
    assert few_rows(BY_ID["draw-le"], ("bits", "exact:draws"))["bits"] == ""


def test_the_trials_try_what_is_planted() -> None:
    """In the interpreter: a length of 0 is found in a hundred requests, the control is not."""
    outcome = run_on(BY_ID["length-less-one"], "cpu", 100, ("near",))
    assert outcome.verdict is Verdict.INVALID
    assert "breach" in outcome.caught_by
    assert "num_sampled outside 1 to depth + 1" in outcome.reasons[0]
    control = run_on(None, "cpu", 100, ("near",))
    assert control.caught_by == ()
    assert control.verdict is Verdict.INCONCLUSIVE  # with so few


def alone(fault: TextFault | None, device: str, requests: int, targets: tuple[str, ...] | None = None) -> Outcome:
    """Tried in a process of its own, as pp3 faults does: an illegal address ends CUDA for the whole process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(run_on, (fault, device, requests, targets))


def test_one_that_is_tried_in_a_process_of_its_own_is_told_as_ever() -> None:
    tried = [way(BY_ID["length-less-one"], "cpu", 100, ("near",)) for way in (alone, run_on)]
    apart, here = ((one.verdict, one.caught_by, one.reasons) for one in tried)
    assert apart == here


@pytest.mark.gpu
@pytest.mark.parametrize("fault", OF_A_TRIAL, ids=lambda fault: fault.id)
def test_its_witness_catches_it_on_a_gpu(fault: TextFault) -> None:
    """In a fiftieth of the million requests that it may take."""
    outcome = alone(fault, "cuda", 20_000)
    assert outcome.verdict in (Verdict.FAIL, Verdict.INVALID)
    witnesses = {fault.witness} | ({"invalid"} if fault.id in ENDS_CUDA else set())
    assert witnesses & set(outcome.caught_by), outcome


@pytest.mark.gpu
def test_the_control_passes_on_a_gpu() -> None:
    outcome = alone(None, "cuda", 20_000)
    assert (outcome.verdict, outcome.caught_by) == (Verdict.PASS, ()), outcome.reasons


@pytest.mark.soak
def test_the_control_passes_a_trial() -> None:
    """On three targets whose checks all stand with 3,000 requests of each law."""
    outcome = run_on(None, "cpu", 3_000, ("far", "equal", "shared-noise"))
    assert (outcome.verdict, outcome.caught_by) == (Verdict.PASS, ()), outcome.reasons
