"""Our own engine with a fault planted: it shows where it says and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest
from run_requests import CHAIN, LEVEL, asks, fit, run, seed_of, tokens_of, transitions

from pp3.harness.engine.contract import Ask
from pp3.harness.engine.model import Rule, law
from pp3.harness.engine.runner import Runner
from pp3.harness.engine.runner_faults import FAULTS
from pp3.targets.target import ONE

DEPTH = 3
# Slots, plan, who hangs up after how many tokens, and whose answers differ from the sound engine's.
Probe = tuple[int, list[Ask], dict[int, int], set[int]]


def probes(fault: str, seed: int) -> tuple[Probe, Probe]:
    """Where a fault shows, and the nearest place where it must not."""
    short, long = asks(4, 6, seed), asks(4, 40, seed)
    taken_again = [replace(short[0], length=6), long[1], long[2]]
    match fault:
        case "row-order":  # request 2 takes slot 0 while request 1 is older
            return (2, taken_again, {}, {1, 2}), (3, taken_again, {}, set())
        case "padding":
            return (3, long[:3], {}, {2}), (2, long[:2], {}, set())
        case "slot-seed":
            return (1, short[:2], {}, {1}), (2, short[:2], {}, set())
        case "one-path":
            cool = asks(3, 40, seed, top_k=2)
            return (3, cool, {}, {0, 1, 2}), (3, [replace(ask, speculate=False) for ask in cool], {}, set())
        case "stale-draft":
            return (3, long[:3], {}, {0, 1, 2}), (3, [replace(ask, speculate=False) for ask in long[:3]], {}, set())
        case "shared-seed":
            return (3, long[:3], {}, {1, 2}), (1, long[:3], {}, set())
        case "aborted-neighbour":
            return (3, long[:3], {0: 5}, {1}), (3, long[:3], {}, set())
    raise AssertionError(fault)


STREAMS = ("row-order", "padding", "slot-seed", "one-path", "stale-draft", "shared-seed", "aborted-neighbour")


@pytest.mark.parametrize("fault", STREAMS)
def test_a_fault_shows_where_it_says_and_nowhere_else(fault: str, request: pytest.FixtureRequest) -> None:
    for slots, plan, hang_up, differ in probes(fault, seed_of(request)):
        sound = tokens_of(run(Runner(CHAIN, slots=slots, depth=DEPTH), plan, hang_up))
        wrong = tokens_of(run(FAULTS[fault].runner(CHAIN, slots=slots, depth=DEPTH), plan, hang_up))
        assert {number for number in range(len(plan)) if sound[number] != wrong[number]} == differ


@pytest.mark.parametrize("fault", ["row-order", "padding", "stale-draft", "aborted-neighbour"])
def test_a_fault_of_the_law_changes_the_law(fault: str, request: pytest.FixtureRequest) -> None:
    plan = [replace(ask, length=40 if ask.number < 2 else 700) for ask in asks(9, 700, seed_of(request))]
    hang_up = {4: 5} if fault == "aborted-neighbour" else {}
    got = tokens_of(run(FAULTS[fault].runner(CHAIN, slots=7, depth=DEPTH), plan, hang_up))
    assert fit(transitions(plan, got), CHAIN.weights / ONE) < LEVEL


def test_one_path_emits_what_a_filter_forbids(request: pytest.FixtureRequest) -> None:
    plan = asks(6, 60, seed_of(request), top_k=2)
    laws = np.array([law(row, Rule(top_k=2)) for row in CHAIN.weights])
    got = tokens_of(run(FAULTS["one-path"].runner(CHAIN, slots=6, depth=DEPTH), plan))
    assert (transitions(plan, got)[laws == 0] > 0).any()


def test_shared_seeds_make_equal_prompts_equal() -> None:
    plan = [Ask(number=i, prompt=(3,), length=30) for i in range(3)]
    assert len(set(tokens_of(run(FAULTS["shared-seed"].runner(CHAIN, slots=3, depth=DEPTH), plan)))) == 1


def test_nothing_stops_and_past_stop_go_on() -> None:
    plan = asks(20, 60, 3, stop=(5, 9))
    sound = tokens_of(run(Runner(CHAIN, slots=5, depth=DEPTH), plan))
    endless = tokens_of(run(FAULTS["nothing-stops"].runner(CHAIN, slots=5, depth=DEPTH), plan))
    past = tokens_of(run(FAULTS["past-stop"].runner(CHAIN, slots=5, depth=DEPTH), plan))
    assert {len(tokens) for tokens in endless} == {60} != {len(tokens) for tokens in sound}
    longer = [(one, other) for one, other in zip(sound, past, strict=True) if one != other]
    assert longer
    assert all(other[: len(one)] == one and len(other) <= len(one) + DEPTH for one, other in longer)


def test_other_logprobs_are_those_of_the_position_before() -> None:
    plan = asks(1, 30, 8, logprobs=0)
    sound = run(Runner(CHAIN, slots=1, depth=0), plan)
    wrong = run(FAULTS["other-logprobs"].runner(CHAIN, slots=1, depth=0), plan)
    assert tokens_of(sound) == tokens_of(wrong)
    tokens = tokens_of(sound)[0]
    told = [part.logprobs[0] for part in wrong[0]]
    with np.errstate(divide="ignore"):
        earlier = np.log(CHAIN.weights[CHAIN.class_of[list(tokens[:-2])], tokens[2:]] / ONE)
    np.testing.assert_array_equal(told[2:], earlier)
    assert told != [part.logprobs[0] for part in sound[0]]


def test_every_fault_is_tested_here() -> None:
    others = {"nothing-stops", "past-stop", "other-logprobs"}
    assert set(FAULTS) == {*STREAMS, *others}
