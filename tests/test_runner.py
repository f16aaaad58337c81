"""Our own engine: its law, and what its answers depend on."""

from dataclasses import replace

import numpy as np
import pytest
from run_requests import CHAIN, LEVEL, asks, fit, run, seed_of, tokens_of, transitions

from pp3.harness.engine.contract import Ask, Finish
from pp3.harness.engine.model import Rule, law, load
from pp3.harness.engine.rows import RowTable
from pp3.harness.engine.runner import SESSION, Runner
from pp3.harness.filters import ENGINES, law_of_logits
from pp3.kernels.addressing import Purpose, request_key, words
from pp3.targets.filtered import Settings
from pp3.targets.target import ONE

DEPTH = 3


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
