"""What verify refuses of a small receipt before it counts, to the word: its shape, plan, laws, kernels, pieces."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from built import Statement
from decided import (
    COMPILED,
    PIECE,
    ZEROS,
    Change,
    Predicate,
    in_pieces,
    named,
    on_a_gpu,
    put,
    said,
    sealed,
    small_of,
    stray,
)

from pp3.harness import canonical
from pp3.harness.campaign import Campaign
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed


@pytest.fixture(scope="module")
def small(measure: Callable[[Campaign, Seed], Measured]) -> Statement:
    """Of two targets, depths and batch sizes; copy before changing."""
    return small_of(measure)


def reseal(p: Predicate) -> Predicate:
    """Make the plan's digest and the seed follow from a changed plan; the predicate."""
    p["planSha256"] = canonical.sha256(p["plan"])
    p["seed"]["sha256"] = Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex()
    return p


def rewritten(p: Predicate, **plan: Any) -> None:
    """Values of the plan, sealed anew."""
    p["plan"].update(plan)
    reseal(p)


DECIDED: dict[str, tuple[Change, str]] = {
    # shape
    "no start": (lambda p: p["run"].pop("startedUtc"), "shape: started None, the name says 20260102T030405Z"),
    "another start": (
        lambda p: p["run"].update(startedUtc="2026-01-02T03:04:06Z"),
        "shape: started '2026-01-02T03:04:06Z', the name says 20260102T030405Z",
    ),
    "a count below 0": (
        lambda p: put(p["cells"][0]["counts"], 0, -1),
        "shape: Expected `int` >= 0 - at `$.cells[0].counts[0]`",
    ),
    "a batch below 0": (lambda p: p["cells"][0].update(batch=-1), "shape: Expected `int` >= 0 - at `$.cells[0].batch`"),
    "a forbidden outcome that was not met": (
        lambda p: stray(p, count=0, more=0),
        "shape: Expected `int` >= 1 - at `$.strays[0].count`",
    ),
    "a timing of 0 ns": (
        lambda p: put(p["timings"][0]["samples"], 0, 0),
        "shape: Expected `int` >= 1 - at `$.timings[0].samples[0]`",
    ),
    "no timings of a kind": (
        lambda p: p["timings"][0].update(samples=[]),
        "shape: Expected `array` of length >= 1 - at `$.timings[0].samples`",
    ),
    "an unknown kind": (
        lambda p: p.update(kind="wish"),
        "shape: kind 'wish'; this version reads qualify, wire, exhaustive, oracle, trial, engine, survey, "
        "probe, calibration",
    ),
    "a kind that is no text": (
        lambda p: p.update(kind=1),
        "shape: kind 1; this version reads qualify, wire, exhaustive, oracle, trial, engine, survey, probe, "
        "calibration",
    ),
    # plan
    "another rule of the seed": (
        lambda p: p["seed"].update(rule="by hand"),
        "plan: the seed rule must read 'sha256(planSha256 bytes || counter u64 little-endian); session = "
        "first 16 bytes; request r: key index r >> 20'",
    ),
    "another plan than its digest": (lambda p: p["plan"].update(requests=502), "plan: hashes to {plan}, not {before}"),
    "a value of the plan spelled otherwise": (
        lambda p: rewritten(p, alpha="0.00001"),
        "plan: its values rebuild to another plan for disjoint, sparse-tail",
    ),
    "a plan without a key": (lambda p: (p["plan"].pop("pool"), reseal(p)), "plan: KeyError: 'pool'"),
    "a plan that cannot be": (
        lambda p: rewritten(p, requests=0),
        "plan: requests = 0; it must be from 1 to 1099511627776",
    ),
    "another seed": (
        lambda p: p["seed"].update(sha256=ZEROS),
        "plan: the seed of this plan and counter is {seed}, not {zeros}",
    ),
    "another counter": (
        lambda p: p["seed"].update(counter=8),
        "plan: the seed of this plan and counter is {seed}, not {drawn}",
    ),
    # laws
    "another law of the second target": (
        lambda p: (p["plan"]["targets"][1].update(lawSha256=ZEROS), reseal(p)),
        "laws: sparse-tail is {zeros} there, {law} here",
    ),
    "no law": (
        lambda p: (p["plan"]["targets"][0].pop("lawSha256"), reseal(p)),
        "laws: disjoint is None there, {first_law} here",
    ),
    # kernels
    "a group of bits left out": (
        lambda p: p["kernels"]["bits"].pop(),
        "kernels: the groups of bits are not those of the plan",
    ),
    "a group of bits of more rows": (
        lambda p: p["kernels"]["bits"][0].update(rows=57),
        "kernels: the groups of bits are not those of the plan",
    ),
    "a row failed more than there are": (
        lambda p: p["kernels"]["bits"][3].update(failedRows=57),
        "kernels: propose/bf16/vocab-97/tau-0.0 has more failed rows than rows",
    ),
    "answers of one file": (
        lambda p: p["kernels"]["conform"].pop(),
        "kernels: known answers of ['propose.json'], not those installed here",
    ),
    "answers of another file": (
        lambda p: p["kernels"]["conform"][0].update(sha256=ZEROS),
        "kernels: known answers of ['propose.json', 'verify.json'], not those installed here",
    ),
    "an identity of no backend": (
        lambda p: p["kernels"]["identity"].clear(),
        "kernels: the identity is that of None; want interpreter",
    ),
    "bits alone, of no backend": (
        lambda p: p["kernels"].update(conform=[], identity={}),
        "kernels: the identity is that of None; want interpreter",
    ),
    "answers alone, of no backend": (
        lambda p: p["kernels"].update(bits=[], identity={}),
        "kernels: the identity is that of None; want interpreter",
    ),
    "a GPU of nothing compiled": (lambda p: on_a_gpu(p), "kernels: the identity names no gpu"),
    "a GPU without its digest of kernels": (
        lambda p: on_a_gpu(p, **COMPILED | {"compiled_kernels_sha256": ""}),
        "kernels: the identity names no compiled_kernels_sha256",
    ),
    "a GPU without a name": (lambda p: on_a_gpu(p, **COMPILED | {"gpu": ""}), "kernels: the identity names no gpu"),
    "a GPU that is an interpreter": (
        lambda p: on_a_gpu(p, **COMPILED | {"backend": "interpreter"}),
        "kernels: the identity is that of interpreter; want cuda",
    ),
    "a GPU's identity, interpreted": (
        lambda p: p["kernels"]["identity"].update(backend="cuda"),
        "kernels: the identity is that of cuda; want interpreter",
    ),
    "a GPU's rows of bits, interpreted": (
        lambda p: (on_a_gpu(p, backend="interpreter"), p["sampler"].update(backend="reference")),
        "kernels: the groups of bits are not those of the plan",
    ),
    # how it was run, in pieces
    "pieces fewer": (lambda p: in_pieces(p, pieces=-1), "pieces: 24 pieces, 25 of them run; the plan is cut into 25"),
    "a piece not run": (lambda p: in_pieces(p, ran=-1), "pieces: 25 pieces, 24 of them run; the plan is cut into 25"),
    "more repeated than there are": (
        lambda p: in_pieces(p, repeated=+1),
        "pieces: 26 of 25 pieces are said to be repeated",
    ),
    "a foreign piece": (lambda p: in_pieces(p, unequal=["wish"]), "pieces: 'wish' is no piece of the plan"),
    "a piece twice": (
        lambda p: in_pieces(p, unequal=[PIECE, PIECE]),
        "pieces: the unequal pieces are not sorted, each once",
    ),
    "pieces out of order": (
        lambda p: in_pieces(p, unequal=[PIECE, "kernels,verify"]),
        "pieces: the unequal pieces are not sorted, each once",
    ),
    "a piece of other counts": (
        lambda p: in_pieces(p, unequal=[PIECE]),
        "verdict: verdict recomputes to 'INVALID', the receipt says 'INCONCLUSIVE'",
    ),
    "a start below 1": (
        lambda p: (in_pieces(p), p["execution"].update(attempts=0)),
        "shape: Expected `int` >= 1 - at `$.execution.attempts`",
    ),
}


@pytest.mark.parametrize(("change", "reason"), DECIDED.values(), ids=DECIDED)
def test_a_change_is_refused_for_its_reason(change: Change, reason: str, small: Statement) -> None:
    """To the word: another limit, or another value in it, would be another sentence."""
    statement = copy.deepcopy(small)
    change(statement["predicate"])
    assert said(sealed(statement)) == reason.format(**named(statement, small))
