"""Our own engine: its law, what its answers depend on, and what each planted fault changes."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from pp3.harness.engine.contract import Ask, Finish
from pp3.harness.engine.model import Model, Rule, law, load
from pp3.harness.engine.rows import RowTable
from pp3.harness.engine.runner import SESSION, Emitted, Request, Runner
from pp3.harness.engine.runner_faults import FAULTS
from pp3.harness.filters import ENGINES, law_of_logits
from pp3.kernels.addressing import Purpose, request_key, words
from pp3.targets.filtered import Settings
from pp3.targets.target import ONE

CHAIN = load("chain-64")
DEPTH = 3
LEVEL = 1e-6  # of a test whose seed is fixed: the chance that its honest sampler had failed when it was written
BINS, EXPECTED = 6, 8  # cells of a class, and what each expects, about, at least


def seed_of(request: pytest.FixtureRequest) -> int:
    """The seed that a test's id gives."""
    return int.from_bytes(hashlib.sha256(request.node.nodeid.encode()).digest()[:6], "little")


def asks(count: int, length: int, seed: int, **more: Any) -> list[Ask]:
    """Requests after ordinary tokens, each with a seed of its own."""
    return [Ask(number=i, prompt=(7 * i % 59,), length=length, seed=seed + i, **more) for i in range(count)]


def run(runner: Runner, plan: Sequence[Ask], hang_up: dict[int, int] | None = None) -> list[list[Emitted]]:
    """What each request gets, by step; a request that is to hang up does so after so many tokens."""
    got: list[list[Emitted]] = [[] for _ in plan]
    requests: list[Request] = []

    def deliver(number: int) -> Callable[[Emitted], None]:
        def take(emitted: Emitted) -> None:
            got[number].append(emitted)
            limit = (hang_up or {}).get(number)
            if limit is not None and sum(len(part.tokens) for part in got[number]) >= limit:
                requests[number].gone = True

        return take

    requests += [runner.submit(ask, deliver(number)) for number, ask in enumerate(plan)]
    while runner.step():
        pass
    return got


def tokens_of(got: list[list[Emitted]]) -> list[tuple[int, ...]]:
    """The tokens of each answer."""
    return [tuple(token for part in parts for token in part.tokens) for parts in got]


def transitions(plan: Sequence[Ask], answers: Sequence[tuple[int, ...]], model: Model = CHAIN) -> npt.NDArray[Any]:
    """Counts [classes, vocab] of tokens by the class of the token before."""
    counts = np.zeros(model.weights.shape, np.int64)
    for ask, tokens in zip(plan, answers, strict=True):
        before = [ask.prompt[-1], *tokens][:-1] if tokens else []
        np.add.at(counts, (model.class_of[before], np.array(tokens, np.int64)), 1)
    return counts


def fit(counts: npt.NDArray[Any], laws: npt.NDArray[Any]) -> float:
    """p of Pearson's chi-square of BINS of about equal mass a class; 0 for an impossible token.

    Tokens are binned in the order of how far the target exceeds the proposal, which wrong acceptance moves mass along.
    """
    if (counts[laws == 0] > 0).any():
        return 0.0
    total, freedom = 0.0, 0
    for number in np.flatnonzero(counts.sum(axis=1) >= BINS * EXPECTED):
        tickets = np.full(CHAIN.vocab, 0.5)
        tickets[CHAIN.supports.ids[number]] += CHAIN.supports.tickets[number]
        order = np.argsort(laws[number] / tickets, kind="stable")
        running = np.cumsum(laws[number][order])
        of = np.minimum((running * BINS - 1e-9).astype(int), BINS - 1)
        cells = counts[number].sum() * np.bincount(of, laws[number][order], BINS)
        seen = np.bincount(of, counts[number][order], BINS)
        kept = cells > 0
        total, freedom = total + ((seen - cells)[kept] ** 2 / cells[kept]).sum(), freedom + int(kept.sum()) - 1
    assert freedom > BINS
    return float(stats.chi2.sf(total, freedom))


def test_a_plain_token_is_the_one_that_its_random_word_picks(request: pytest.FixtureRequest) -> None:
    # exact by coupling: the first token whose running weight exceeds the word's 64 bits, scaled to the weights' sum
    plan = asks(3, 40, seed_of(request))
    answers = tokens_of(run(Runner(CHAIN, slots=2, depth=0), plan))
    for ask, tokens in zip(plan, answers, strict=True):
        assert ask.seed is not None
        key = np.array([request_key(SESSION, 0, 0, ask.seed, Purpose.VERIFY)], np.uint64)
        for place, (before, token) in enumerate(zip((ask.prompt[-1], *tokens), tokens, strict=False)):
            at = np.array([place], np.uint64)
            w = words(key, at, at)[0]
            value = (int(w[1]) | int(w[2]) << 32) * ONE >> 64
            assert token == np.searchsorted(np.cumsum(CHAIN.weights[CHAIN.class_of[before]]), value, side="right")


@pytest.mark.parametrize("depth", [0, DEPTH], ids=["plain", "speculative"])
def test_the_law_is_the_targets(depth: int, request: pytest.FixtureRequest) -> None:
    plan = asks(16, 400, seed_of(request))
    got = run(Runner(CHAIN, slots=8, depth=depth), plan)
    counts = transitions(plan, tokens_of(got))
    assert counts.sum() == 16 * 400
    assert fit(counts, CHAIN.weights / ONE) > LEVEL
    most = max(len(part.tokens) for parts in got for part in parts)
    assert most == depth + 1


def test_a_request_that_brings_no_seed_gets_one_of_its_own() -> None:
    plan = [Ask(number=i, prompt=(3,), length=30) for i in range(4)]
    first, again, other = (tokens_of(run(Runner(CHAIN, slots=4, depth=DEPTH, seed=s), plan)) for s in (1, 1, 2))
    assert len(set(first)) == 4
    assert first == again != other


@pytest.mark.parametrize("depth", [0, DEPTH], ids=["plain", "speculative"])
def test_a_seed_gives_its_tokens_wherever_it_runs(depth: int, request: pytest.FixtureRequest) -> None:
    plan = asks(7, 30, seed_of(request))
    alone = [tokens_of(run(Runner(CHAIN, slots=1, depth=depth), [ask]))[0] for ask in plan]
    assert len(set(alone)) == len(plan)
    assert tokens_of(run(Runner(CHAIN, slots=3, depth=depth), plan)) == alone
    assert tokens_of(run(Runner(CHAIN, slots=5, depth=depth), plan[::-1])) == alone[::-1]
    mixed = [ask for pair in zip(plan, asks(7, 11, 99, top_k=3, speculate=False), strict=True) for ask in pair]
    assert tokens_of(run(Runner(CHAIN, slots=4, depth=depth), mixed))[::2] == alone
    left = run(Runner(CHAIN, slots=7, depth=depth), plan, hang_up={1: 5, 4: 9})
    assert [one for number, one in enumerate(tokens_of(left)) if number not in (1, 4)] == [
        one for number, one in enumerate(alone) if number not in (1, 4)
    ]
    assert 5 <= len(tokens_of(left)[1]) <= 5 + depth


SETTINGS = {
    "top-k": Settings(top_k=5),
    "top-p": Settings(top_p=0.6),
    "min-p": Settings(min_p=0.3),
    "cool-top-p": Settings(temperature=0.5, top_p=0.6),
    "hot-min-p": Settings(temperature=1.7, min_p=0.2),
    "all": Settings(temperature=0.7, top_k=20, top_p=0.8, min_p=0.1),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_filters_are_those_of_the_oracle(settings: Settings) -> None:
    # FP32 logits of the oracle's row are off by 2^-24 of |logit| < 17 at most, so a probability by 17 * 2^-24 / T
    rule = Rule(temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p, min_p=settings.min_p)
    for row in range(0, 59, 7):
        with np.errstate(divide="ignore"):
            logits = np.log(CHAIN.weights[row] / ONE).astype(np.float32)
        wanted = law_of_logits(logits, settings, ENGINES["vllm-torch"]).outcomes
        probs = law(CHAIN.weights[row], rule)
        fits = [
            one
            for one in wanted
            if np.allclose(
                np.bincount(one.cell_of, weights=probs, minlength=CHAIN.vocab),
                one.weights / one.total,
                rtol=2 * 17 * 2.0**-24 / settings.temperature,
                atol=2.0**-23,
            )
        ]
        assert fits


def test_bias_and_penalty_are_added_and_multiplied() -> None:
    row = CHAIN.weights[9] / ONE
    biased = law(CHAIN.weights[9], Rule(bias=((4, 1.5),)))
    wanted = row * np.where(np.arange(CHAIN.vocab) == 4, np.exp(1.5), 1.0)
    np.testing.assert_allclose(biased, wanted / wanted.sum(), rtol=2.0**-22)
    penalised = law(CHAIN.weights[9], Rule(penalty=1.3), [4, 4, 30])
    wanted = row.copy()
    wanted[[4, 30]] **= 1.3  # a log-probability is negative, so it is multiplied
    np.testing.assert_allclose(penalised, wanted / wanted.sum(), rtol=2.0**-22)


@pytest.mark.parametrize("settings", [SETTINGS["top-k"], SETTINGS["all"]], ids=["top-k", "all"])
def test_speculation_does_not_change_a_filtered_law(settings: Settings, request: pytest.FixtureRequest) -> None:
    more = {"temperature": settings.temperature, "top_k": settings.top_k or None, "top_p": settings.top_p}
    plan = asks(16, 250, seed_of(request), min_p=settings.min_p, **more)
    rule = Rule.of(plan[0])
    laws = np.array([law(row, rule) for row in CHAIN.weights], np.float64)
    assert fit(transitions(plan, tokens_of(run(Runner(CHAIN, slots=8, depth=DEPTH), plan))), laws) > LEVEL


def test_greedy_is_the_argmax_with_and_without_drafts() -> None:
    plan = asks(5, 40, 1, temperature=0.0, logit_bias={8: 0.5})
    drafted = tokens_of(run(Runner(CHAIN, slots=3, depth=DEPTH), plan))
    assert drafted == tokens_of(run(Runner(CHAIN, slots=3, depth=0), plan))
    biased = CHAIN.weights * np.where(np.arange(CHAIN.vocab) == 8, np.exp(0.5), 1.0)
    for ask, tokens in zip(plan, drafted, strict=True):
        before = [ask.prompt[-1], *tokens][:-1]
        assert list(tokens) == biased[CHAIN.class_of[before]].argmax(axis=1).tolist()


@pytest.mark.parametrize("depth", [0, DEPTH], ids=["plain", "speculative"])
def test_nothing_follows_a_stop_and_nothing_exceeds_the_length(depth: int, request: pytest.FixtureRequest) -> None:
    seed = seed_of(request)
    doors = [Ask(number=i, prompt=(60,), length=25, seed=seed + i, ignore_eos=False) for i in range(30)]
    stops = [Ask(number=i, prompt=(i,), length=25, seed=seed - i, stop=(5, 9)) for i in range(30)]
    for plan, ends in ((doors, {CHAIN.end}), (stops, {5, 9})):
        got = run(Runner(CHAIN, slots=6, depth=depth), plan)
        finishes = [parts[-1].finish for parts in got]
        assert set(finishes) == {Finish.STOP, Finish.LENGTH}
        for tokens, finish in zip(tokens_of(got), finishes, strict=True):
            assert not ends & set(tokens[:-1])
            assert (tokens[-1] in ends) == (finish is Finish.STOP)
            assert len(tokens) <= 25
            assert finish is Finish.STOP or len(tokens) == 25
    ignoring = [replace(ask, ignore_eos=True) for ask in doors]
    assert {len(tokens) for tokens in tokens_of(run(Runner(CHAIN, slots=6, depth=depth), ignoring))} == {25}


def test_a_logprob_is_that_of_its_token_whatever_is_filtered() -> None:
    plan = asks(4, 20, 5, temperature=0.8, top_k=10, logprobs=0)
    for ask, parts in zip(plan, run(Runner(CHAIN, slots=2, depth=DEPTH), plan), strict=True):
        tokens = [token for part in parts for token in part.tokens]
        before = [ask.prompt[-1], *tokens][:-1]
        wanted = np.log(CHAIN.weights[CHAIN.class_of[before], tokens] / ONE)
        np.testing.assert_array_equal(wanted, [value for part in parts for value in part.logprobs])


def test_laws_that_are_forgotten_are_found_again(request: pytest.FixtureRequest) -> None:
    plan = asks(6, 30, seed_of(request))
    large = Runner(CHAIN, slots=3, depth=DEPTH)
    small = Runner(CHAIN, slots=3, depth=DEPTH)
    small.table = RowTable(CHAIN.vocab, 3 * (DEPTH + 1), capacity=0)
    assert len(small.table.rows.valid) < CHAIN.vocab
    assert tokens_of(run(small, plan)) == tokens_of(run(large, plan))


def test_a_target_that_is_no_chain_of_its_own_law_is_served_too() -> None:
    model = load("context")
    plan = [Ask(number=0, prompt=(11,), length=12, seed=4)]
    (tokens,) = tokens_of(run(Runner(model, slots=1, depth=2), plan))
    before = [11, *tokens][:-1]
    assert (model.weights[model.class_of[before], list(tokens)] > 0).all()


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
