"""Rows of a plain sampler: each law against a filter written in fractions here, and what is left out, with why."""

import itertools
from collections import defaultdict
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pp3.harness.cells import Event
from pp3.harness.filter_rules import ENGINES, Hit, Order, Rules, Ties
from pp3.harness.samplers.contract import Carrier, Description, Kind
from pp3.harness.trial import plain
from pp3.harness.trial.plain import NEUTRAL, SeenRows
from pp3.harness.trial.problems import REQUIRED, choose, names
from pp3.targets.filtered import Case, Settings, cases

WIDE = Context(prec=60)
EVERYTHING = ("temperature", "top_k", "top_p", "min_p")
CLOSE = 1e-12
STEPS = {
    Order.MIN_P_FIRST: "t m k p",
    Order.TOP_K_FIRST: "t k p m",
    Order.JOINT: "t k P m",
    Order.TEMPERATURE_LAST: "k p m t",
    Order.TOP_P_FIRST: "p m k t",
}


def who(carrier: Carrier = Carrier.LOGITS, rules: Rules | None = None, **more: Any) -> Description:
    """A sampler that filters by these rules."""
    given: dict[str, Any] = {"name": "it", "kind": Kind.PLAIN, "target_carrier": carrier, "filters": EVERYTHING}
    if rules is not None:
        given |= {"order": rules.order, "ties": rules.ties, "top_p_ties": rules.top_p_ties, "top_p_hit": rules.hit}
    return Description(**given | {"greedy": True} | more)


class Kept:
    """Groups of tied tokens by falling value: their ids and how many of them are left, whichever they are."""

    def __init__(self, values: list[Fraction], masses: list[Fraction]) -> None:
        tied: dict[Fraction, list[int]] = defaultdict(list)
        for token, value in enumerate(values):
            if masses[token]:
                tied[value].append(token)
        self.groups = [(tied[value], len(tied[value])) for value in sorted(tied, reverse=True)]
        self.masses = masses

    def sorted(self) -> list[Fraction]:
        """Masses of what is left, falling."""
        return [self.masses[ids[0]] for ids, count in self.groups for _ in range(count)]

    def cut(self, size: int, ties: Ties) -> None:
        """Keep the first `size`."""
        left, groups = size, []
        for ids, count in self.groups:
            if left <= 0:
                break
            if left < count and ties is Ties.LOWER_ID:
                ids = sorted(ids)[:left]
            groups.append((ids, count if ties is Ties.ALL_KEPT else min(count, left)))
            left -= count
        self.groups = groups


def filtered(case: Case, masses_at: Any, rules: Rules) -> dict[int, tuple[int, Fraction]]:
    """For each possible cell, by its lowest id: how many tokens it has, and its probability."""
    s, heat = case.settings, Fraction(1)
    cool = masses_at(heat)
    kept = Kept(cool, cool)
    if s.temperature == 0:
        kept.cut(1, rules.ties if rules.ties is Ties.LOWER_ID else Ties.VALUE_ONLY)
    else:
        for step in STEPS[rules.order].split():
            left = kept.sorted()
            if step == "t" and s.temperature != 1:
                kept.masses = masses_at(Fraction(float(np.float32(s.temperature))))
            elif step == "k" and s.top_k:
                kept.cut(s.top_k, rules.ties)
            elif step in ("p", "P") and np.float32(s.top_p) != 1:
                pool = sorted(kept.masses, reverse=True) if step == "P" else left
                limit = Fraction(float(np.float32(s.top_p))) * sum(pool, Fraction(0))
                total, size = Fraction(0), 0
                for mass in pool:
                    if total > limit or (total == limit and rules.hit is Hit.STOPS):
                        break
                    total, size = total + mass, size + 1
                kept.cut(min(max(size, 1), len(left)), rules.top_p_ties)
            elif step == "m" and s.min_p:
                limit = Fraction(float(np.float32(s.min_p))) * left[0]
                kept.cut(sum(mass >= limit for mass in left), Ties.ALL_KEPT)
    found: dict[int, tuple[int, Fraction]] = {}
    total = sum(kept.sorted(), Fraction(0))
    for ids, count in kept.groups:
        mass = kept.masses[ids[0]]
        if count < len(ids):
            found[min(ids)] = (len(ids), count * mass / total)
        else:
            found |= {token: (1, mass / total) for token in ids}
    return found


def of_probs(case: Case) -> Any:
    """Masses of the carrier of probabilities; a temperature is in them already."""
    row = [Fraction(float(p)) for p in plain.heated(case)]
    return lambda heat: row


def of_logits(case: Case) -> Any:
    """Masses of FP32 logits at a temperature, relative to the largest."""
    top = max(Fraction(float(x)) for x in case.logits if x > -np.inf)

    def at(heat: Fraction) -> list[Fraction]:
        known: dict[float, Fraction] = {}
        for x in set(case.logits.tolist()):
            deep = None if x == -np.inf else (Fraction(x) - top) / heat
            mass = (
                Decimal(0)
                if deep is None
                else WIDE.exp(WIDE.divide(Decimal(deep.numerator), Decimal(deep.denominator)))
            )
            known[x] = Fraction(mass)
        return [known[x] for x in case.logits.tolist()]

    return at


def rows_of(d: Description) -> tuple[list[SeenRows], dict[str, str]]:
    """Every vocabulary, and what is left out."""
    problems, left = choose(d, names(Kind.PLAIN))
    return [problem.target for problem in problems], left


CASES = {case.name: case for several in plain.by_vocab().values() for case in several}


@pytest.mark.parametrize("carrier", [Carrier.PROBS, Carrier.LOGITS])
@pytest.mark.parametrize("rules", ENGINES.values(), ids=ENGINES)
def test_every_row_is_that_of_a_filter_in_fractions(rules: Rules, carrier: Carrier) -> None:
    found, left = rows_of(who(carrier, rules))
    judged = 0
    for target in found:
        for row, name in enumerate(target.labels):
            case = CASES[name]
            effective = case
            if carrier is Carrier.PROBS and case.settings.temperature not in (0, 1):
                held = {key: getattr(case.settings, key) for key in NEUTRAL} | {"temperature": 1.0}
                effective = Case(name=name, why="", weights=case.weights, settings=Settings(**held))
            masses = of_probs(case) if carrier is Carrier.PROBS else of_logits(case)
            expected = filtered(effective, masses, rules)
            total = int(target.weights[row].sum())
            law = {int(t): int(target.weights[row, t]) / total for t in np.flatnonzero(target.weights[row])}
            assert set(law) == set(expected), (name, law, expected)
            for token, (members, mass) in expected.items():
                assert abs(law[token] - float(mass)) < CLOSE, (name, token)
                assert (target.lump[row] == token).sum() == members, (name, token)
            judged += 1
    assert judged + sum("/" in name for name in left) == len(CASES)
    assert judged >= 55
    for name, reason in left.items():
        assert reason == ("FP32 rounding decides it" if "/" in name else "no case of it applies"), name


@pytest.mark.parametrize("carrier", [Carrier.PROBS, Carrier.LOGITS])
def test_only_what_rounding_decides_is_left_out(carrier: Carrier) -> None:
    """With a threshold that a sum or a ratio equals, or equals once renormalised; every other case is judged."""
    hits = {case.name for case in cases() if case.exact_hit}
    for rules in ENGINES.values():
        _, left = rows_of(who(carrier, rules))
        assert {name.partition("/")[2] for name in left if "/" in name} <= hits


@pytest.mark.parametrize(
    ("engine", "carrier", "expected"),
    [
        ("flashinfer-joint", Carrier.PROBS, set()),
        ("flashinfer", Carrier.PROBS, {"p-hit-wide"}),
        (
            "vllm-triton",
            Carrier.LOGITS,
            {case.name for case in cases() if case.exact_hit},
        ),
    ],
)
def test_a_hit_is_left_out_where_its_carrier_is_rounded(engine: str, carrier: Carrier, expected: set[str]) -> None:
    """Probabilities over 2^24 and their sums are exact until something renormalises them; logits never are."""
    _, left = rows_of(who(carrier, ENGINES[engine]))
    assert {name.partition("/")[2] for name in left if "/" in name} == expected


@pytest.mark.parametrize(
    ("filters", "applies"),
    [
        ((), lambda s: s == Settings()),
        (("temperature",), lambda s: (s.top_k, s.top_p, s.min_p) == (0, 1, 0)),
        (("top_k",), lambda s: (s.temperature, s.top_p, s.min_p) == (1, 1, 0)),
        (("top_p",), lambda s: (s.temperature, s.top_k, s.min_p) == (1, 0, 0)),
        (("min_p",), lambda s: (s.temperature, s.top_k, s.top_p) == (1, 0, 1)),
        (("temperature", "top_p"), lambda s: (s.top_k, s.min_p) == (0, 0)),
    ],
    ids=lambda value: "+".join(value) or "none" if isinstance(value, tuple) else "",
)
def test_cases_follow_the_declared_filters(filters: tuple[str, ...], applies: Any) -> None:
    """A case that uses another filter is left out by the name of that filter; none is left out without one."""
    found, left = rows_of(who(filters=filters, rules=ENGINES["flashinfer"]))
    judged = {name for target in found for name in target.labels}
    undecided = {name.partition("/")[2] for name, reason in left.items() if reason == "FP32 rounding decides it"}
    assert judged | undecided == {case.name for case in cases() if applies(case.settings)}
    for name, reason in left.items():
        case = CASES.get(name.partition("/")[2])
        if case is not None and reason.endswith("is not declared"):
            used = reason.partition(" ")[0]
            assert used not in filters or reason == "temperature 0 is not declared"
            assert getattr(case.settings, used) != NEUTRAL[used]


def test_temperature_0_needs_a_greedy_path() -> None:
    found, left = rows_of(who(greedy=False))
    assert {name for name, case in CASES.items() if case.settings.temperature == 0} == {
        name.partition("/")[2] for name, reason in left.items() if reason == "temperature 0 is not declared"
    }
    assert all(target.tables.temperature.min() > 0 for target in found)


def test_a_vocabulary_that_is_not_declared_is_left_out_whole() -> None:
    _, left = rows_of(who(min_vocab=9, max_vocab=999))
    whole = {name: reason for name, reason in left.items() if "/" not in name}
    assert whole == {
        f"rows-of-{vocab}": f"vocabulary {vocab}; the sampler declares 9 to 999" for vocab in (4, 6, 7, 8, 1000)
    }


def test_settings_are_none_where_no_row_has_one() -> None:
    """Engines take another path then."""
    found, _ = rows_of(who(filters=("temperature",)))
    assert {(t.tables.top_k, t.tables.top_p, t.tables.min_p) for t in found} == {(None, None, None)}


def test_a_batch_mixes_laws() -> None:
    """Else a row read from another request would not show: neighbours differ in every vocabulary, but for ties."""
    for name, several in plain.by_vocab().items():
        for one, other in itertools.pairwise(several):
            assert (one.weights != other.weights).any() or len(set(one.weights.tolist())) == 1, name
    original = {case.name: case for case in cases()}
    for name, case in CASES.items():
        assert sorted(case.weights.tolist()) == sorted(original[name].weights.tolist())


def test_a_batch_mixes_settings() -> None:
    """Else a setting read from another row would not show."""
    found, _ = rows_of(who(rules=ENGINES["flashinfer"]))
    (twelve,) = [target for target in found if target.name == "rows-of-12"]
    assert len(set(twelve.tables.temperature.tolist())) > 3
    for column in (twelve.tables.top_k, twelve.tables.top_p, twelve.tables.min_p):
        assert column is not None
        assert len(set(column.tolist())) > 3


def test_each_case_is_a_check_of_its_own() -> None:
    problems, _ = choose(who(rules=ENGINES["flashinfer"]), names(Kind.PLAIN))
    for problem in problems:
        tokens = [cell for cell in problem.cells if cell.event is Event.TOKEN]
        assert [cell.pattern for cell in tokens] == list(problem.target.labels)
        assert {cell.event for cell in problem.cells} - {Event.TOKEN} == {Event.MATCH, Event.PAIR}
        assert problem.share == len(tokens)


def test_what_a_pass_needs_is_a_vocabulary() -> None:
    assert set(REQUIRED[Kind.PLAIN]) <= set(plain.NAMES)
    assert sum(map(len, plain.by_vocab().values())) == len(cases())


def test_digests_tell_vocabularies_apart() -> None:
    assert len({plain.digest(name) for name in plain.NAMES}) == len(plain.NAMES)


def test_rules_that_cannot_be_are_refused() -> None:
    """A joint order has one sort."""
    with pytest.raises(ValueError, match="one sort has one rule"):
        choose(who(order="joint", ties="value-only", top_p_ties="lower-id"), names(Kind.PLAIN))
