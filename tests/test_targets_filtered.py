"""The cases of filtered sampling: exact, each open only where it says so, and each planted fault met by a named one."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from filtered import EVERY

from pp3.harness.filters import Filtered, Hit, Order, Rules, Settings, Ties, law_of_logits, law_of_probs
from pp3.targets.filtered import NAMES, ROWS, Case, cases, row
from pp3.targets.target import ONE

DIGEST = "cd55f7bca816c5b8f4fa11084f8bd32367bd25f7f81c0ee99c17aaef1570d558"
CASES = {case.name: case for case in cases()}
RENORMALISED = {"p-hit-after-k", "p-hit-wide"}  # the hit is there once top-k's rest is divided by its sum
Probs = npt.NDArray[np.float64]


def laws(case: Case, rules: Rules) -> list[Filtered]:
    """From logits and, at temperatures that have exact ones, from probabilities."""
    found = [law_of_logits(case.logits, case.settings, rules)]
    if case.settings.temperature in (0, 1):
        found.append(law_of_probs(case.weights, case.settings, rules))
    return found


def distance(probs: Probs, found: Filtered) -> float:
    """Total variation from the nearest outcome, by its cells."""
    near = []
    for outcome in found.outcomes:
        sums = np.bincount(outcome.cell_of, weights=probs, minlength=len(probs))
        near.append(float(np.abs(sums - outcome.weights / outcome.total).sum()) / 2)
    return min(near)


def test_the_cases_are_the_committed_ones() -> None:
    digest = hashlib.sha256()
    for case in cases():
        digest.update(f"{case.name} {case.settings} {case.exact_hit}\n".encode())
        digest.update(case.weights.astype("<i8").tobytes() + case.logits.astype("<f4").tobytes())
    assert digest.hexdigest() == DIGEST


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_exact(name: str) -> None:
    weights = row(name)
    assert (weights.sum(), weights.min() >= 0, len(weights)) == (ONE, True, len(ROWS[name]))
    assert np.bincount(weights)[1:].max() == max(ROWS[name].count(share) for share in ROWS[name] if share)  # ties
    assert (np.sort(weights)[::-1] > 0).tolist() == [share > 0 for share in ROWS[name]]
    if weights.max() < ONE and len(set(ROWS[name])) > 1:
        assert (np.argsort(-weights, kind="stable") != np.arange(len(weights))).any()  # ids are not ranks


@pytest.mark.parametrize("name", NAMES)
def test_carriers_are_the_row(name: str) -> None:
    case = CASES[name]
    assert (case.probs.astype(np.float64) * ONE == case.weights).all()
    assert np.exp(case.logits.astype(np.float64)) == pytest.approx(case.weights / ONE, rel=2e-6)
    assert len(set(case.logits.tolist())) == len(set(case.weights.tolist()))


def test_names_are_distinct_and_reasons_given() -> None:
    assert len(set(NAMES)) == len(NAMES) == len(CASES)
    assert len({case.why for case in CASES.values()}) == len(NAMES)


def test_settings_cover_the_borders() -> None:
    """k = 0, 1, V - 1, V, V + 1; p of 1, next to 1, tiny; min-p of 0, 1; T of 0, below and above 1; all alone."""
    found = [(case.settings, len(case.weights)) for case in CASES.values()]
    plain = Settings()
    for border in (lambda v: 0, lambda v: 1, lambda v: v - 1, lambda v: v, lambda v: v + 1):
        assert any(s == replace(plain, top_k=border(v)) for s, v in found)
    assert {s.top_p for s, _ in found} >= {1.0, 0.9999999, 0.75, 0.5, 2.0**-20}
    assert {s.min_p for s, _ in found} >= {0.0, 1.0, 0.5, 2.0**-20}
    for heat in (0.0, 0.5, 0.7, 1.0, 1.5, 2.0):
        assert any(s == replace(plain, temperature=heat) for s, _ in found)
    assert any(s.top_k and s.top_p < 1 and s.min_p and s.temperature > 1 for s, _ in found)
    assert {len(weights) for weights in map(row, ROWS)} >= {8, 63, 1000}


@pytest.mark.parametrize("name", NAMES)
def test_a_case_is_open_only_where_it_says_so(name: str) -> None:
    case = CASES[name]
    hits, hits_by_probs = [], []
    for rules in EVERY:
        by_logits, *by_probs = laws(case, rules)
        hits.append(len(by_logits.outcomes) > 1)
        hits_by_probs.append(any(len(found.outcomes) > 1 for found in by_probs))
        assert len(by_logits.outcomes) <= 3
        assert bool(by_logits.undecided) <= case.exact_hit
        for found in by_probs:  # the declared outcome is one of those that logits may show
            probs = found.law.weights / found.law.total
            assert distance(probs, by_logits) < 1e-5
    assert any(hits) == case.exact_hit
    assert any(hits_by_probs) == (name in RENORMALISED)


# A sampler in FP64, by sorting as engines do, with a fault to plant.


@dataclass(frozen=True)
class Sampler:
    """Returns the law it draws from. Each field is the sound operation."""

    order: Order = Order.TOP_K_FIRST
    ties: Ties = Ties.LOWER_ID
    k_of: Callable[[int, int], int] = lambda k, vocab: k if 0 < k < vocab else vocab
    crossing: Callable[[Probs, float], npt.NDArray[np.bool_]] = lambda ranked, p: np.cumsum(ranked) - ranked < p
    floor: Callable[[Probs, float], npt.NDArray[np.bool_]] = lambda probs, q: probs >= q * probs.max()
    heat: Callable[[Probs, float], Probs] = lambda logits, heat: logits / heat
    greedy: Callable[[Probs], Probs] = lambda logits: np.eye(len(logits))[logits.argmax()]
    renormalise: bool = True  # between filters
    map_back: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]] = lambda order: order
    finish: Callable[[Probs], Probs] = lambda kept: kept / kept.sum()

    def law(self, logits: Probs, settings: Settings) -> Probs:
        """[vocab] probabilities."""
        if settings.temperature == 0:
            return self.greedy(logits)
        heated = softmax(self.heat(logits, settings.temperature))
        last = self.order in (Order.TEMPERATURE_LAST, Order.TOP_P_FIRST)
        probs = softmax(logits) if last else heated
        steps = {
            Order.MIN_P_FIRST: "mkp",
            Order.TOP_K_FIRST: "kpm",
            Order.JOINT: "jm",
            Order.TEMPERATURE_LAST: "kpm",
            Order.TOP_P_FIRST: "pmk",
        }[self.order]
        for step in steps:
            keep = {"k": self._top_k, "p": self._top_p, "m": self._min_p, "j": self._joint}[step](probs, settings)
            probs = np.where(keep, probs, 0)
            if self.renormalise and probs.any():
                probs = probs / probs.sum()
        return self.finish(np.where(probs > 0, heated, 0)) if probs.any() else np.full(len(probs), 1 / len(probs))

    def _top_k(self, probs: Probs, settings: Settings) -> npt.NDArray[np.bool_]:
        k = self.k_of(settings.top_k, len(probs))
        order = np.argsort(-probs, kind="stable")
        keep = np.zeros(len(probs), np.bool_)
        keep[self.map_back(order)[:k]] = True
        return keep if self.ties is not Ties.ALL_KEPT or not k else keep | (probs >= probs[order[k - 1]])

    def _top_p(self, probs: Probs, settings: Settings) -> npt.NDArray[np.bool_]:
        order = np.argsort(-probs, kind="stable")
        keep = np.zeros(len(probs), np.bool_)
        keep[self.map_back(order)[self.crossing(probs[order], settings.top_p)]] = True
        return keep | (settings.top_p == 1)

    def _min_p(self, probs: Probs, settings: Settings) -> npt.NDArray[np.bool_]:
        return self.floor(probs, settings.min_p)

    def _joint(self, probs: Probs, settings: Settings) -> npt.NDArray[np.bool_]:
        return self._top_k(probs, settings) & self._top_p(probs, settings)


def softmax(logits: Probs) -> Probs:
    """[vocab]."""
    powers = np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


def met(sampler: Sampler, declared: Rules) -> dict[str, float]:
    """How far a sampler is from what it declares, in each case."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            name: distance(
                sampler.law(np.log(case.weights / ONE), case.settings),
                law_of_logits(case.logits, case.settings, declared),
            )
            for name, case in CASES.items()
        }


SOUND = Rules(order=Order.TOP_K_FIRST, ties=Ties.LOWER_ID, top_p_ties=Ties.LOWER_ID)


@pytest.mark.parametrize("order", Order)
def test_a_sound_sampler_meets_every_case(order: Order) -> None:
    far = met(Sampler(order=order), replace(SOUND, order=order))
    assert {name: tv for name, tv in far.items() if tv > 1e-5} == {}


# Fault: what is planted, the rules it is declared under, the case that must meet it first.
FAULTS: dict[str, tuple[Sampler, Rules, str]] = {
    "k is one too many": (Sampler(k_of=lambda k, vocab: k + 1 if 0 < k < vocab else vocab), SOUND, "k-1"),
    "k is one too few": (Sampler(k_of=lambda k, vocab: max(k - 1, 1) if 0 < k < vocab else vocab), SOUND, "k-5"),
    "k = 0 is clamped to 1": (Sampler(k_of=lambda k, vocab: min(max(k, 1), vocab)), SOUND, "plain"),
    "k = V + 1 wraps": (Sampler(k_of=lambda k, vocab: k % vocab or vocab), SOUND, "k-beyond"),
    "k = V is V - 1": (Sampler(k_of=lambda k, vocab: min(k or vocab, vocab) - (k == vocab)), SOUND, "k-vocab"),
    "ties at k are all kept": (Sampler(ties=Ties.ALL_KEPT), SOUND, "k-tie-inside"),
    "ties at k are cut": (Sampler(), replace(SOUND, ties=Ties.ALL_KEPT), "k-tie-inside"),
    "the token that crosses p is dropped": (Sampler(crossing=lambda s, p: np.cumsum(s) <= p), SOUND, "p-inside"),
    "a sum that never reaches p keeps one": (
        Sampler(crossing=lambda s, p: np.arange(len(s)) <= np.argmax(np.cumsum(s) * (1 - 2.0**-20) >= p)),
        SOUND,
        "p-next-to-1",
    ),
    "p tiny leaves nothing": (Sampler(crossing=lambda s, p: np.cumsum(s) < p), SOUND, "p-tiny"),
    "top-p without renormalising": (Sampler(renormalise=False), SOUND, "k-then-p"),
    "top-p by rank for id": (Sampler(map_back=lambda order: np.arange(len(order))), SOUND, "p-inside"),
    "min-p of 1, not of the maximum": (Sampler(floor=lambda probs, q: (probs >= q) | (q == 0)), SOUND, "min-p-tenth"),
    "min-p is strict": (Sampler(floor=lambda probs, q: (probs > q * probs.max()) | (q == 0)), SOUND, "min-p-1"),
    "temperature multiplies": (Sampler(heat=lambda x, heat: x * heat), SOUND, "cool"),
    "temperature is ignored": (Sampler(heat=lambda x, heat: x), SOUND, "cool"),
    "temperature twice": (Sampler(heat=lambda x, heat: x / heat / heat), SOUND, "lukewarm"),
    "temperature after top-p": (Sampler(order=Order.TEMPERATURE_LAST), SOUND, "cool-p"),
    "temperature before top-p": (Sampler(), replace(SOUND, order=Order.TEMPERATURE_LAST), "hot-p"),
    "min-p last, not first": (Sampler(), replace(SOUND, order=Order.MIN_P_FIRST), "min-p-then-p"),
    "joint, not top-k first": (Sampler(order=Order.JOINT), SOUND, "k-then-p"),
    "top-k first, not joint": (Sampler(), replace(SOUND, order=Order.JOINT), "k-then-p"),
    "top-p before top-k": (Sampler(order=Order.TOP_P_FIRST), SOUND, "k-then-p"),
    "the rest goes to the last token": (Sampler(finish=lambda kept: to_last(kept)), SOUND, "k-5"),
    "greedy as temperature 1e-6": (Sampler(greedy=lambda x: softmax(x / 1e-6)), SOUND, "greedy-tie"),
    "greedy samples": (Sampler(greedy=softmax), SOUND, "greedy"),
}


def to_last(kept: Probs) -> Probs:
    """Without renormalising at the end, a draw above the sum falls to the last token that is left."""
    found = kept.copy()
    found[np.flatnonzero(kept)[-1]] += 1 - kept.sum()
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_met(fault: str) -> None:
    """By the case made for it, at a total variation that some ten thousand draws show; not by every case."""
    sampler, declared, first = FAULTS[fault]
    far = met(sampler, declared)
    assert far[first] > 0.004
    assert far["one-left"] < 1e-9


@pytest.mark.parametrize(
    ("sound", "other", "case"),
    [
        (SOUND, replace(SOUND, hit=Hit.GOES_ON), "p-hit-edge"),
        (SOUND, replace(SOUND, hit=Hit.GOES_ON), "p-hit-in-tie"),
        (SOUND, replace(SOUND, top_p_ties=Ties.ALL_KEPT), "p-in-tie"),
        (SOUND, replace(SOUND, top_p_ties=Ties.ALL_KEPT), "p-hit-in-tie"),
        (SOUND, replace(SOUND, ties=Ties.ALL_KEPT), "k-tie-top"),
        (SOUND, replace(SOUND, ties=Ties.ALL_KEPT), "k-flat"),
    ],
)
def test_rules_are_told_apart_by_probabilities(sound: Rules, other: Rules, case: str) -> None:
    """Where a sum hits p exactly, logits may show either side, probabilities only the declared one."""
    one, two = (law_of_probs(CASES[case].weights, CASES[case].settings, rules) for rules in (sound, other))
    assert len(one.outcomes) == len(two.outcomes) == 1
    assert distance(one.law.weights / one.law.total, two) > 0.05


@pytest.mark.parametrize("one", Order)
@pytest.mark.parametrize("other", Order)
def test_some_case_tells_two_orders_apart(one: Order, other: Order) -> None:
    far = met(Sampler(order=one), replace(SOUND, order=other))
    assert (max(far.values()) > 0.05) == (one is not other)
