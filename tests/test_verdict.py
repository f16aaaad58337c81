"""The sentence blames whoever failed, in verbs that agree; and a PASS wants every file of known answers."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pp3.harness import battery, verdict
from pp3.harness import campaign as campaigns
from pp3.harness.campaign import Campaign
from pp3.harness.cells import Event
from pp3.harness.conform import KNOWN_ANSWERS
from pp3.harness.power import Effect
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed
from pp3.harness.tolerance import Weighed, Worth
from pp3.harness.verdict import Judgement, Verdict, conclude

CPU = {"name": "pp3-top32", "version": "1.2", "backend": "reference"}
GPU = CPU | {"backend": "cuda"}
REFERENCE = "the NumPy reference of pp3-top32 1.2"
BESIDE = "the Triton kernels of pp3-top32 1.2 in Triton's interpreter"
KERNELS = "the Triton kernels of pp3-top32 1.2 on H200"
SCALE = "1 target in 4,000 requests"
Change = Callable[[Measured], object]


@pytest.fixture(scope="module")
def chosen() -> Campaign:
    """Small, and enough to pass."""
    return campaigns.of_document(
        {"targets": ["disjoint"], "requests": 4000, "paired": 400, "batch_sizes": [1, 2], "depths": [4]}, "a test"
    )


@pytest.fixture(scope="module")
def clean(chosen: Campaign, measure: Callable[[Campaign, Seed], Measured]) -> Measured:
    """A run with nothing against it."""
    measured = measure(chosen, Seed.of(campaigns.plan_sha256(chosen), 7))
    measured.kernels["identity"]["gpu"] = "H200"
    return measured


def judged(chosen: Campaign, clean: Measured, who: dict[str, Any], *changes: Change) -> Judgement:
    """The judgement after some changes."""
    measured = copy.deepcopy(clean)
    for change in changes:
        change(measured)
    return conclude(chosen, measured.counts, measured.first, measured.breaches, measured.pairs, measured.kernels, who)


def bits_differ(measured: Measured) -> None:
    """Two groups of the kernels' bits."""
    for row in measured.kernels["bits"][:2]:
        row |= {"id": "a group", "rows": 9, "mismatches": 1}


def answers_missed(measured: Measured) -> None:
    """One of the last file."""
    measured.kernels["conform"][-1]["passed"] -= 1


def greedy_differs(measured: Measured) -> None:
    """A temperature-0 request of whoever ran the campaign."""
    measured.pairs[0]["mismatches"] = 1


def contract_broken(measured: Measured) -> None:
    """By whoever ran the campaign."""
    measured.breaches["failed"] = 3


def no_pairs(measured: Measured) -> None:
    """As if none had been compared."""
    measured.pairs = [row | {"pairs": 0} for row in measured.pairs]


def no_kernels(measured: Measured) -> None:
    """torch is not installed."""
    measured.kernels = {"bits": [], "conform": [], "identity": {"gpu": "H200"}, "missing": "torch is not installed"}


def dropped(name: str) -> Change:
    """A file of known answers that was not held."""

    def change(measured: Measured) -> None:
        measured.kernels["conform"] = [row for row in measured.kernels["conform"] if row["file"] != name]

    return change


def emptied(name: str) -> Change:
    """A file of known answers in which there are none."""

    def change(measured: Measured) -> None:
        for row in measured.kernels["conform"]:
            if row["file"] == name:
                row |= {"passed": 0, "total": 0}

    return change


DIFFER = "do not equal the NumPy reference bit for bit: 1 of 9 rows differ: a group"
MISS = "miss known answers: 1 known answers missed in verify.json"
GREEDY = "1 temperature-0 mismatches in 400 pairs"
LAW = f"not emit the exact law of {SCALE}: {GREEDY}"
NO_PAIRS = "paired temperature 0: no pairs were asked for"
NO_TORCH = "bits of the kernels: torch is not installed"
SAID: dict[str, tuple[dict[str, Any], list[Change], str]] = {
    "interpreted bits": (CPU, [bits_differ], f"FAIL: {BESIDE} {DIFFER} (and 1 more)"),
    "interpreted answers": (CPU, [answers_missed], f"FAIL: {BESIDE} {MISS}"),
    "both": (CPU, [bits_differ, answers_missed], f"FAIL: {BESIDE} {DIFFER}; they {MISS} (and 1 more)"),
    "the reference": (CPU, [greedy_differs], f"FAIL: {REFERENCE} does {LAW}"),
    "the reference and the answers": (
        CPU,
        [answers_missed, greedy_differs],
        f"FAIL: {REFERENCE} does {LAW}; {BESIDE} {MISS}",
    ),
    "bits of a GPU": (GPU, [bits_differ], f"FAIL: {KERNELS} {DIFFER} (and 1 more)"),
    "the law of a GPU": (GPU, [greedy_differs], f"FAIL: {KERNELS} do {LAW}"),
    "the law and answers of a GPU": (GPU, [greedy_differs, answers_missed], f"FAIL: {KERNELS} do {LAW}; they {MISS}"),
    "a breach": (CPU, [contract_broken], f"INVALID: {REFERENCE} broke the sampler contract on {SCALE}: 3 x failed"),
    "a breach on a GPU": (
        GPU,
        [contract_broken, bits_differ],
        f"INVALID: {KERNELS} broke the sampler contract on {SCALE}: 3 x failed (and 2 more)",
    ),
    "no pairs": (CPU, [no_pairs], f"INCONCLUSIVE: {REFERENCE} is not decided on {SCALE}: {NO_PAIRS}"),
    "no pairs on a GPU": (GPU, [no_pairs], f"INCONCLUSIVE: {KERNELS} are not decided on {SCALE}: {NO_PAIRS}"),
    "no kernels": (CPU, [no_kernels], f"INCONCLUSIVE: {BESIDE} are not decided: {NO_TORCH} (and 1 more)"),
    "no pairs and no kernels": (
        CPU,
        [no_pairs, no_kernels],
        f"INCONCLUSIVE: {REFERENCE} is not decided on {SCALE}: {NO_PAIRS}; {BESIDE} are not decided: {NO_TORCH} "
        "(and 1 more)",
    ),
}


@pytest.mark.parametrize(("who", "changes", "sentence"), SAID.values(), ids=SAID)
def test_the_sentence_names_who_it_was(
    who: dict[str, Any], changes: list[Change], sentence: str, chosen: Campaign, clean: Measured
) -> None:
    found = judged(chosen, clean, who, *changes)
    assert found.sentence == f"{sentence}. Self-attested."
    assert found.verdict.value == sentence.partition(":")[0]


@pytest.mark.parametrize(("who", "name"), [(CPU, REFERENCE), (GPU, KERNELS)], ids=["cpu", "gpu"])
def test_a_pass_names_who_ran_the_requests(who: dict[str, Any], name: str, chosen: Campaign, clean: Measured) -> None:
    found = judged(chosen, clean, who)
    assert (found.verdict, found.reasons) == (Verdict.PASS, [])
    assert found.sentence.startswith(f"PASS: no evidence against {name} emitting the exact law of {SCALE} (")
    assert ("interpreted rows (wiring, not a GPU)" in found.sentence) == (who is CPU)


@pytest.mark.parametrize("lose", [dropped, emptied])
@pytest.mark.parametrize("name", KNOWN_ANSWERS)
def test_one_file_of_known_answers_is_not_all(
    name: str, lose: Callable[[str], Change], chosen: Campaign, clean: Measured
) -> None:
    found = judged(chosen, clean, CPU, lose(name))
    assert (found.verdict, found.reasons) == (Verdict.INCONCLUSIVE, [f"known answers: none of {name}"])


def test_no_file_of_known_answers_is_said_once(chosen: Campaign, clean: Measured) -> None:
    found = judged(chosen, clean, CPU, *map(dropped, KNOWN_ANSWERS))
    assert found.reasons == ["known answers: no vectors found"]


def test_every_missed_answer_is_counted(chosen: Campaign, clean: Measured) -> None:
    total = clean.kernels["conform"][0]["total"]
    found = judged(chosen, clean, CPU, lambda measured: measured.kernels["conform"][0].update(passed=0))
    assert found.reasons == [f"{total} known answers missed in {KNOWN_ANSWERS[0]}"]


def test_two_targets_are_two_times_the_requests(measure: Callable[[Campaign, Seed], Measured]) -> None:
    document = {"targets": ["disjoint", "equal-q"], "requests": 3000, "paired": 40, "batch_sizes": [1], "depths": [4]}
    both = campaigns.of_document(document, "a test")
    found = judged(both, measure(both, Seed.of(campaigns.plan_sha256(both), 7)), CPU, no_pairs)
    assert f"{REFERENCE} is not decided on 2 targets in 6,000 requests: " in found.sentence


# Deviations, of which the first check that decides is given one of each worth.

WORTHS = {
    Worth.FAIL: (Verdict.FAIL, "does not emit the exact law of", "G = "),
    Worth.OPEN: (
        Verdict.INCONCLUSIVE,
        "is not decided on",
        "deviates by a total variation from 0.012 to 0.034, 0.02 is tolerated: more requests would decide",
    ),
    Worth.TOLERATED: (
        Verdict.TOLERATED,
        "deviates within the tolerance on",
        "deviates by a total variation of at most 0.034, 0.02 is tolerated",
    ),
}


@pytest.mark.parametrize("worth", WORTHS)
def test_a_deviation_is_concluded_by_its_worth(
    worth: Worth, chosen: Campaign, clean: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    tolerant = dataclasses.replace(chosen, spec=msgspec.structs.replace(chosen.spec, tolerance=0.02))
    name = next(test.id for test in judged(chosen, clean, CPU).tests if test.df)
    one = Weighed(id=name, worth=worth, low=0.012, high=0.034)
    monkeypatch.setattr(verdict, "weighed", lambda *_: [one])
    concluded, verb, said = WORTHS[worth]
    found = judged(tolerant, clean, CPU)
    assert (found.verdict, found.deviations) == (concluded, [one])
    [reason] = found.reasons
    assert reason.startswith(f"{name}: {said}")
    assert found.sentence == f"{concluded.value}: {REFERENCE} {verb} {SCALE}: {reason}. Self-attested."


# What is read off the tests.


@pytest.fixture(scope="module")
def some(chosen: Campaign, clean: Measured) -> battery.TestResult:
    """A check that decides, is required and passes."""
    return next(test for test in judged(chosen, clean, CPU).tests if test.decides and test.required)


@pytest.mark.parametrize(
    ("ratio", "near"),
    [(1.0, True), (1 + 9e-6, True), (1 - 9e-6, True), (1 + 11e-6, False), (1 - 11e-6, False), (2.0, False)],
)
def test_a_p_value_on_its_level_decides_nothing(ratio: float, near: bool, some: battery.TestResult) -> None:
    assert verdict.on_level(dataclasses.replace(some, p=some.alpha * ratio)) is near
    assert not verdict.on_level(dataclasses.replace(some, alpha=0.0, p=0.0))


def test_a_check_on_its_level_is_named(chosen: Campaign, clean: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest passes, so that it alone makes the verdict."""
    judge = battery.judge
    first: list[str] = []

    def on_level(*arguments: Any) -> battery.TestResult:
        test = judge(*arguments)
        if not test.decides or first:
            return test
        first.append(test.id)
        return dataclasses.replace(test, p=test.alpha * (1 + 1e-6))

    monkeypatch.setattr(verdict, "judge", on_level)
    found = judged(chosen, clean, CPU)
    assert found.verdict is Verdict.INCONCLUSIVE
    [reason] = found.reasons
    assert reason.startswith(f"{first[0]}: p = ")
    assert reason.endswith("lies on its level")


def test_what_is_seen_is_what_the_weakest_required_check_sees(some: battery.TestResult) -> None:
    """By event; neither a check that is not required nor one that decides nothing counts."""

    def seeing(size: float, event: Event = Event.TOKEN, **changes: Any) -> battery.TestResult:
        effect = Effect(size=size, unit=some.detectable.unit)
        return dataclasses.replace(some, event=event, detectable=effect, **changes)

    tests = [
        seeing(0.1),
        seeing(0.3),
        seeing(0.2),
        seeing(0.8, required=False),
        seeing(0.9, alpha=0.0),
        seeing(0.4, Event.LENGTH),
        seeing(0.7, Event.LENGTH_PAIR),
        seeing(0.6, Event.BONUS, alpha=0.0),
    ]
    assert verdict._sees(tests) == {"token": "0.3", "length": "0.4"}


@pytest.mark.parametrize(("seen", "detect", "kept"), [(0.2, 0.2, True), (0.21, 0.2, False), (0.21, 0.0, True)])
def test_a_promise_is_kept_by_what_is_seen(seen: float, detect: float, kept: bool) -> None:
    assert verdict.unkept(seen, detect) == ([] if kept else ["a total variation of 0.2100 is seen, 0.2 was promised"])
