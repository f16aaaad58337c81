"""Changes of a campaign's statement, and the step of verification that must catch each."""

from collections.abc import Callable
from typing import Any

from forged import (
    add,
    both,
    cell,
    drop,
    edit,
    fifth_digit,
    flipped,
    fullest,
    in_test,
    more,
    move,
    rejudge,
    reseal_plan,
    stray_row,
)

from pp3.harness import canonical

Statement = dict[str, Any]
Change = Callable[[Statement], object]
TAMPERED: dict[str, tuple[Change, str]] = {
    # what it says it is
    "another statement type": (lambda s: s.update(_type="https://in-toto.io/Statement/v2"), "shape"),
    "another predicate": (lambda s: s.update(predicateType="urn:pp3:receipt:v2"), "shape"),
    "an unknown field of the statement": (lambda s: s.update(signed="yes"), "shape"),
    "an unknown field of the predicate": (
        lambda s: s["predicate"].update(approved="yes"),
        "shape",
    ),
    "an unknown field of a cell": (edit("cells", 0, to=lambda old: old | {"weight": 1}), "shape"),
    "an unknown field of the seed": (edit("seed", to=lambda old: old | {"salt": ""}), "shape"),
    "a field of the predicate left out": (lambda s: s["predicate"].pop("breaches"), "shape"),
    "the non-claims left out": (lambda s: s["predicate"].pop("nonClaims"), "shape"),
    "a count as text": (edit("cells", 0, "counts", 0, to=str), "shape"),
    # what was planned
    "alpha of the plan": (edit("plan", "alpha", to="0.01"), "plan"),
    "requests of the plan": (edit("plan", "requests", to=19_999), "plan"),
    "alpha of the plan written otherwise": (both(edit("plan", "alpha", to="0.00001"), reseal_plan), "plan"),
    "an unknown key of the plan": (both(edit("plan", to=lambda old: old | {"reruns": 3}), reseal_plan), "plan"),
    "a key of the plan left out": (both(lambda s: s["predicate"]["plan"].pop("pool"), reseal_plan), "plan"),
    "a law's digest left out": (
        both(lambda s: s["predicate"]["plan"]["targets"][0].pop("lawSha256"), reseal_plan),
        "laws",
    ),
    "an unknown target": (both(edit("plan", "targets", 0, "name", to="mystery"), reseal_plan), "plan"),
    "a bad value of the plan": (both(edit("plan", "requests", to=0), reseal_plan), "plan"),
    "the weights of the plan": (edit("plan", "weights", "law", to="0.4"), "plan"),
    "weights that do not sum to 1": (both(edit("plan", "weights", "law", to="0.4"), reseal_plan), "plan"),
    "weights written otherwise": (both(edit("plan", "weights", "law", to="0.50"), reseal_plan), "plan"),
    "an unknown weight": (both(edit("plan", "weights", to=lambda old: old | {"luck": "0.0"}), reseal_plan), "plan"),
    "a weight left out": (both(lambda s: s["predicate"]["plan"]["weights"].pop("fit"), reseal_plan), "plan"),
    "the tolerance of the plan": (edit("plan", "tolerance", to="0.01"), "plan"),
    "a tolerance of 1": (both(edit("plan", "tolerance", to="1.0"), reseal_plan), "plan"),
    "a tolerance written otherwise": (both(edit("plan", "tolerance", to="0"), reseal_plan), "plan"),
    "the tolerance left out": (both(lambda s: s["predicate"]["plan"].pop("tolerance"), reseal_plan), "plan"),
    "what the plan promises": (edit("plan", "detect", to="0.01"), "plan"),
    "the plan's digest": (edit("planSha256", to=flipped), "plan"),
    "the plan and its digest, not the seed": (
        both(
            edit("plan", "alpha", to="0.01"),
            lambda s: s["predicate"].update(planSha256=canonical.sha256(s["predicate"]["plan"])),
        ),
        "plan",
    ),
    "the counter": (edit("seed", "counter", to=8), "plan"),
    "a negative counter": (edit("seed", "counter", to=-1), "shape"),
    "the seed": (edit("seed", "sha256", to=flipped), "plan"),
    "a law's digest": (edit("plan", "targets", 0, "lawSha256", to=flipped), "plan"),
    "a law's digest, the plan sealed anew": (
        both(edit("plan", "targets", 0, "lawSha256", to=flipped), reseal_plan),
        "laws",
    ),
    "two laws exchanged, the plan sealed anew": (
        both(
            edit(
                "plan",
                "targets",
                to=lambda old: [
                    one | {"lawSha256": other["lawSha256"]}
                    for one, other in zip(old, [old[1], old[0], *old[2:]], strict=True)
                ],
            ),
            reseal_plan,
        ),
        "laws",
    ),
    # what was counted
    "one count more": (
        lambda s: cell(s, "token")["counts"].__setitem__(0, cell(s, "token")["counts"][0] + 1),
        "recompute counts",
    ),
    "one length more": (
        lambda s: cell(s, "length")["counts"].__setitem__(0, cell(s, "length")["counts"][0] + 1),
        "recompute counts",
    ),
    "one proposal less": (
        edit("cells", 0, "counts", to=lambda old: [max(old) - 1 if n == max(old) else n for n in old]),
        "recompute counts",
    ),
    "a count moved between two lengths": (lambda s: move(s, "length"), "recompute counts"),
    "one kept draft more": (more("kept"), "recompute counts"),
    "one judged draft more": (more("accept"), "recompute counts"),
    "one replacement more": (more("residual"), "recompute counts"),
    "one draft and its replacement more": (more("recovery"), "recompute counts"),
    "one token after another more": (more("prefix"), "recompute counts"),
    "one pair of positions more": (more("match/positions"), "recompute counts"),
    "one pair of neighbours more": (more("match/requests-1"), "recompute counts"),
    "one distant pair more": (more("match/requests-128"), "recompute counts"),
    "one pair of first tokens more": (more("pair"), "recompute counts"),
    "one pair of lengths more": (more("length-pair"), "recompute counts"),
    "one stretch more": (more("repeat"), "recompute counts"),
    "one bonus more": (more("bonus"), "recompute counts"),
    "a first half larger than the whole": (edit("cells", 0, "first", 0, to=10**6), "recompute counts"),
    "a first half of one count more": (edit("cells", 0, "first", to=lambda old: [*old, 0]), "recompute counts"),
    "a first half left out": (lambda s: s["predicate"]["cells"][0].pop("first"), "recompute counts"),
    "a first half of nothing": (edit("cells", 0, "first", to=lambda old: [0] * len(old)), "recompute counts"),
    "a first half of everything": (
        lambda s: s["predicate"]["cells"][0].update(first=s["predicate"]["cells"][0]["counts"]),
        "recompute counts",
    ),
    "one pair of the first half fewer": (
        lambda s: fullest(s, "pair")["first"].__setitem__(0, fullest(s, "pair")["first"][0] - 1),
        "recompute counts",
    ),
    "a first half below 0": (edit("cells", 0, "first", 0, to=-1), "shape"),
    "a count below 0": (edit("cells", 0, "counts", 0, to=-1), "shape"),
    "a count too many": (edit("cells", 0, "counts", to=lambda old: [0, *old]), "recompute counts"),
    "no counts": (edit("cells", 0, "counts", to=[]), "recompute counts"),
    "a cell deleted": (drop("cells"), "recompute counts"),
    "a cell there twice": (add("cells", item=lambda old: old[0]), "recompute counts"),
    "a foreign cell": (
        add("cells", item={"batch": 1, "counts": [0, 0], "id": "sparse-tail/depth-4/wish"}),
        "recompute counts",
    ),
    "a foreign batch size": (edit("cells", 0, "batch", to=7), "recompute counts"),
    "a forbidden outcome that is not named": (
        lambda s: cell(s, "token")["counts"].__setitem__(-1, 1),
        "recompute counts",
    ),
    "a named forbidden outcome that is not counted": (
        lambda s: s["predicate"]["strays"].append(stray_row(s)),
        "recompute counts",
    ),
    "a forbidden outcome of a foreign cell": (
        add("strays", item={"batch": 1, "cell": "wish", "count": 1, "outcome": 3}),
        "recompute counts",
    ),
    "a forbidden outcome without its cell": (add("strays", item={"count": 0}), "shape"),
    "a forbidden outcome whose cell is a list": (
        add("strays", item={"batch": 1, "cell": [], "count": 0, "outcome": 3}),
        "shape",
    ),
    "an unknown breach": (edit("breaches", to=lambda old: old | {"late": 0}), "recompute counts"),
    "a breach left out": (lambda s: s["predicate"]["breaches"].pop("failed"), "recompute counts"),
    "fewer requests, the plan sealed anew": (
        both(edit("plan", "requests", to=19_999), reseal_plan),
        "recompute counts",
    ),
    "fewer batch sizes, the plan sealed anew": (
        both(edit("plan", "batchSizes", to=[1, 2, 3]), reseal_plan),
        "recompute counts",
    ),
    "other pairs than planned, the plan sealed anew": (
        both(edit("plan", "paired", to=10), reseal_plan),
        "recompute counts",
    ),
    "pairs left out, judged anew": (both(drop("paired"), rejudge), "recompute counts"),
    "pairs there twice, judged anew": (both(add("paired", item=lambda old: old[0]), rejudge), "recompute counts"),
    "pairs of another target": (edit("paired", 0, "target", to="wish"), "recompute counts"),
    "a row of pairs below 0, judged anew": (
        both(
            edit("paired", 0, "pairs", to=lambda n: -n),
            edit("paired", 1, "pairs", to=lambda n: 3 * n),
            rejudge,
        ),
        "shape",
    ),
    # what follows
    "a count moved between two tokens": (lambda s: move(s, "token"), "recompute statistics"),
    "a count moved between two proposals": (lambda s: move(s, "proposal"), "recompute statistics"),
    "a p-value in its fifth digit": (in_test("p", fifth_digit), "recompute statistics"),
    "G": (in_test("g", lambda old: str(float(old) + 1)), "recompute statistics"),
    "Pearson's statistic": (in_test("pearson", lambda old: str(float(old) + 1)), "recompute statistics"),
    "Pearson's p-value": (in_test("pearsonP", lambda old: "0.5"), "recompute statistics"),
    "the level of a check": (in_test("alpha", lambda old: "0.05"), "error budget"),
    "the degrees of freedom": (in_test("df", lambda old: old + 1), "recompute statistics"),
    "the events of a check": (in_test("events", lambda old: old + 1), "recompute statistics"),
    "what a check sees": (in_test("detectable", lambda old: "0.001"), "recompute statistics"),
    "what a check does not exclude": (in_test("excluded", lambda old: "0.001"), "recompute statistics"),
    "the unit of a check": (in_test("unit", lambda old: "ratio"), "recompute statistics"),
    "the method of a check": (in_test("method", lambda old: "fit"), "recompute statistics"),
    "the worst outcome of a check": (in_test("worst", lambda old: "none"), "recompute statistics"),
    "a deviation made up": (
        add("deviations", item={"high": "0.01", "id": "fit", "low": "0", "worth": "tolerated"}),
        "recompute statistics",
    ),
    "other weights, the plan sealed anew": (
        both(
            edit("plan", "weights", "law", to="0.45"),
            edit("plan", "weights", "conditional", to="0.25"),
            reseal_plan,
        ),
        "recompute statistics",
    ),
    "more than is seen promised, the plan sealed anew": (
        both(edit("plan", "detect", to="0.001"), reseal_plan),
        "verdict",
    ),
    "the outcome of a check": (in_test("outcome", lambda old: "certain"), "recompute statistics"),
    "that a check is required": (in_test("required", lambda old: not old), "recompute statistics"),
    "that a check is required, as a number": (in_test("required", int), "recompute statistics"),
    "an unknown field of a check": (edit("tests", 0, to=lambda old: old | {"waived": "yes"}), "recompute statistics"),
    "a check left out": (drop("tests"), "recompute statistics"),
    "a check there twice": (add("tests", item=lambda old: old[0]), "recompute statistics"),
    "two checks exchanged": (edit("tests", to=lambda old: [old[1], old[0], *old[2:]]), "recompute statistics"),
    "a p-value of the customer's family": (edit("seedFamily", 0, "pearsonP", to="0.5"), "recompute statistics"),
    "the reading of the customer's family": (
        edit("seedFamily", 0, "below", to=lambda old: not old),
        "recompute statistics",
    ),
    "a row of the customer's family left out": (drop("seedFamily"), "recompute statistics"),
    "what the campaign sees": (edit("sees", "token", to="0.0001"), "recompute statistics"),
    "an event the campaign sees left out": (lambda s: s["predicate"]["sees"].pop("token"), "recompute statistics"),
    "another alpha, the plan sealed anew": (
        both(edit("plan", "alpha", to="0.01"), reseal_plan),
        "recompute statistics",
    ),
    "bits of the kernels that are no rows": (edit("kernels", "bits", to=[1]), "shape"),
    "an identity that is no object, on a GPU": (
        both(edit("sampler", "backend", to="cuda"), edit("kernels", "identity", to="H200")),
        "shape",
    ),
    "the verdict": (edit("verdict", to="FAIL"), "verdict"),
    "an unknown verdict": (edit("verdict", to="EXCELLENT"), "verdict"),
    "the sentence": (edit("sentence", to=lambda old: old.replace("no evidence against", "proof of")), "verdict"),
    "a reason made up": (edit("reasons", to=["it rained"]), "verdict"),
    "a breach of the contract": (edit("breaches", "failed", to=1), "verdict"),
    "a temperature-0 mismatch": (edit("paired", 0, "mismatches", to=1), "verdict"),
    "a row of bits that differs": (edit("kernels", "bits", 0, "mismatches", to=1), "verdict"),
    "more rows of bits": (edit("kernels", "bits", 0, "rows", to=1_000_000), "kernels"),
    "one group of bits, of no rows": (edit("kernels", "bits", to=lambda old: [old[0] | {"rows": 0}]), "kernels"),
    "a group of bits left out": (drop("kernels", "bits"), "kernels"),
    "more failed rows than rows": (edit("kernels", "bits", 0, "failedRows", to=10**6), "kernels"),
    "a file of known answers left out": (drop("kernels", "conform"), "kernels"),
    "one made-up file of known answers": (
        edit("kernels", "conform", to=[{"file": "x", "passed": 1, "sha256": "", "total": 1}]),
        "kernels",
    ),
    "an identity of another backend": (edit("kernels", "identity", "backend", to="cuda"), "kernels"),
    "a GPU without its compiled kernels": (
        both(edit("sampler", "backend", to="cuda"), edit("kernels", "identity", to={"backend": "cuda", "gpu": "X"})),
        "kernels",
    ),
    "the bits of the kernels left out": (edit("kernels", "bits", to=[]), "verdict"),
    "a known answer missed": (edit("kernels", "conform", 0, "passed", to=0), "verdict"),
    "the name of the sampler": (edit("sampler", "name", to="another"), "verdict"),
    "the version of the sampler": (edit("sampler", "version", to="9.9"), "verdict"),
    "a non-claim left out": (drop("nonClaims"), "non-claims"),
    "a non-claim softened": (edit("nonClaims", 0, to="Not yet qualified for serving."), "non-claims"),
    "a claim among the non-claims": (add("nonClaims", item="A speedup is claimed."), "non-claims"),
}
BACKED_BY_NOTHING: dict[str, Change] = {
    "the assurance": edit("assurance", to="independently reproduced"),
    "the kind": edit("kind", to="oracle"),
    "the rule of the seed": edit("seed", "rule", to="chosen by hand"),
    "more answers passed than there are": edit("kernels", "conform", 0, "passed", to=1_000_000),
    "mismatches that are no number": edit("kernels", "bits", 0, "mismatches", to=""),
}
