"""Changes of an enumeration's or the bridge's statement, and the step of verification that must catch each."""

import copy
from collections.abc import Callable

from altered import Change, Statement, both, drop, edit, flipped

from pp3.harness import crossings
from pp3.harness.exact import oracle, suite
from pp3.harness.softmax_distance import distances
from pp3.targets.policies import build_policy

ENUMERATIONS, BRIDGED = "recompute enumerations", "recompute policies"
CONCLUDE: dict[str, Callable[..., suite.Conclusion | oracle.Conclusion]] = {
    "exhaustive": suite.conclude,
    "oracle": oracle.conclude,
}


def rejudge(statement: Statement) -> None:
    """Make the verdict follow from changed integers, as a forger would."""
    predicate = statement["predicate"]
    rows = predicate["policies" if predicate["kind"] == "oracle" else "enumerations"]
    concluded = CONCLUDE[predicate["kind"]](rows, predicate["sampler"], predicate["kernels"])
    predicate["verdict"], predicate["reasons"] = concluded.verdict.value, concluded.reasons
    predicate["sentence"] = concluded.sentence


def without(*path: str | int, key: str) -> Change:
    """Remove one key of an object of the predicate."""
    return edit(*path, to=lambda old: {name: value for name, value in old.items() if name != key})


def named(*path: str | int, key: str, to: str) -> Change:
    """Give a key of an object of the predicate another name."""
    return edit(*path, to=lambda old: {to if name == key else name: value for name, value in old.items()})


def longer(rational: str) -> str:
    """A rational with one more digit in its denominator."""
    return rational + "1"


def swap(*path: str | int, one: int, other: int) -> Change:
    """Exchange the id or name of two entries of the predicate."""

    def change(statement: Statement) -> None:
        rows = statement["predicate"][path[0]]
        key = path[-1]
        places = [rows[n]["survey"] if path[0] == "policies" else rows[n] for n in (one, other)]
        places[0][key], places[1][key] = places[1][key], places[0][key]

    return change


def survey_anew(statement: Statement) -> None:
    """Everything that follows from the first policy's tables made to follow from changed ones, but for the verdict."""
    row = statement["predicate"]["policies"][0]
    target = build_policy(row["survey"]["target"])
    ids, tickets = row["survey"]["ids"], row["survey"]["tickets"]
    row["survey"] = crossings.cross(target, ids, tickets).plain()
    row["distances"] = [one.plain() for one in distances(target, ids, tickets)]


def interpreted(statement: Statement) -> None:
    """The sampler and the identity say that the kernels were interpreted."""
    both(edit("sampler", "backend", to="interpreter"), edit("kernels", "identity", "backend", to="interpreter"))(
        statement
    )


def again(*changes: Change) -> Change:
    """The first enumeration twice, the changes made to the first of the two alone."""
    return both(edit("enumerations", to=lambda old: [copy.deepcopy(old[0]), *old]), *changes)


NOTHING = {"passed": 0, "total": 0}
COMMON: dict[str, tuple[Change, str]] = {
    "another statement type": (lambda s: s.update(_type="https://in-toto.io/Statement/v2"), "shape"),
    "another predicate": (lambda s: s.update(predicateType="urn:pp3:receipt:v2"), "shape"),
    "an unknown field of the statement": (lambda s: s.update(signed="yes"), "shape"),
    "an unknown field of the predicate": (lambda s: s["predicate"].update(approved="yes"), "shape"),
    "the non-claims left out": (lambda s: s["predicate"].pop("nonClaims"), "shape"),
    "the sampler left out": (lambda s: s["predicate"].pop("sampler"), "shape"),
    "an unknown backend": (edit("sampler", "backend", to="tpu"), "shape"),
    "an unknown kind": (edit("kind", to="sampled"), "shape"),
    "the kind of a campaign": (edit("kind", to="qualify"), "shape"),
    "another assurance": (edit("assurance", to="independently reproduced"), "shape"),
    "no bound file": (lambda s: s.update(subject=[]), "shape"),
    "another start": (edit("run", to=lambda old: {"finishedUtc": old["finishedUtc"]}), "shape"),
    "an identity that is no object": (edit("kernels", "identity", to="H200"), "shape"),
    "the verdict": (edit("verdict", to="FAIL"), "verdict"),
    "an unknown verdict": (edit("verdict", to="EXCELLENT"), "verdict"),
    "a reason made up": (edit("reasons", to=["it rained"]), "verdict"),
    "the sentence": (edit("sentence", to=lambda old: old.replace("Self-attested", "Proved")), "verdict"),
    "the name of the sampler": (edit("sampler", "name", to="another"), "verdict"),
    "the version of the sampler": (edit("sampler", "version", to="9.9"), "verdict"),
    "a known answer missed": (edit("kernels", "conform", 0, "passed", to=0), "verdict"),
    "a file without known answers": (edit("kernels", "conform", 0, to=lambda old: old | NOTHING), "kernels"),
    "the identity of another backend": (edit("kernels", "identity", "backend", to="cuda"), "verdict"),
    "the identity without its backend": (without("kernels", "identity", key="backend"), "verdict"),
    "the backend interpreter": (interpreted, "verdict"),
    "the profile": (edit("profile", to="default"), "shape"),
    "the tool": (edit("tool", "name", to="another"), "shape"),
    "no tool": (edit("tool", to={}), "shape"),
    "a non-claim left out": (drop("nonClaims"), "non-claims"),
    "a non-claim softened": (edit("nonClaims", 0, to="Not yet qualified for serving."), "non-claims"),
}
# Observed integers are not recomputed but judged: a wrong one is a FAIL that the receipt must say.
EXHAUSTIVE: dict[str, tuple[Change, str]] = {
    "a count as text": (edit("enumerations", 0, "values", "flat", 0, to=str), "shape"),
    "a count as truth": (edit("enumerations", 4, "values", "greedy", 0, to=False), "shape"),
    "compared below 0": (edit("enumerations", 0, "compared", to=-1), "shape"),
    "an unknown field of an enumeration": (edit("enumerations", 0, to=lambda old: old | {"skipped": 0}), "shape"),
    "the values left out": (without("enumerations", 0, key="values"), "shape"),
    "one draw more": (edit("enumerations", 0, "values", "flat", 3, to=lambda n: n + 1), "verdict"),
    "one draw outside": (edit("enumerations", 0, "values", "flat", -2, to=1), "verdict"),
    "a draw moved to the next token": (
        edit("enumerations", 0, "values", "flat", to=lambda old: [old[0] - 1, old[1] + 1, *old[2:]]),
        "verdict",
    ),
    "one accepting word more": (
        edit("enumerations", 1, "values", "context/row-0/accepting", 9, to=lambda n: n + 1),
        "verdict",
    ),
    "a digest of residual tokens": (edit("enumerations", 1, "values", "context/row-0/residual", to=flipped), "verdict"),
    "a digest of lengths": (edit("enumerations", 2, "values", "depth-5/lengths", to=flipped), "verdict"),
    "a digest of tokens": (edit("enumerations", 2, "values", "depth-4/tokens", to=flipped), "verdict"),
    "a hard exponential": (edit("enumerations", 3, "values", "hard", 1, to=lambda n: n - 1), "verdict"),
    "a word consumed twice": (edit("enumerations", 4, "values", "distinct", 0, to=lambda n: n - 1), "verdict"),
    "more words than there are": (
        both(
            edit("enumerations", 4, "values", "distinct", 0, to=lambda n: n + 1),
            edit("enumerations", 4, "values", "consumed", 0, to=lambda n: n + 1),
        ),
        "verdict",
    ),
    "a word read at temperature 0": (edit("enumerations", 4, "values", "greedy", 0, to=1), "verdict"),
    "a way that differs": (edit("enumerations", 5, "values", "ways-that-differ/proposal", 0, to=1), "verdict"),
    "a digest of a vocabulary": (edit("enumerations", 5, "values", "proposal/fp32/vocab-4097", to=flipped), "verdict"),
    "an entry left out": (without("enumerations", 5, "values", key="proposal/fp32/vocab-33"), "verdict"),
    "an entry under another name": (
        named("enumerations", 5, "values", key="proposal/fp32/vocab-33", to="proposal/fp32/vocab-34"),
        "verdict",
    ),
    "a list for a digest": (edit("enumerations", 2, "values", "depth-4/tokens", to=[1]), "verdict"),
    "a digest for a list": (edit("enumerations", 0, "values", "flat", to="0f"), "verdict"),
    "an empty list": (edit("enumerations", 0, "values", "flat", to=[]), "verdict"),
    "an enumeration left out": (drop("enumerations", at=2), "verdict"),
    "all enumerations left out": (edit("enumerations", to=[]), "verdict"),
    "two names exchanged": (swap("enumerations", "id", one=1, other=2), "verdict"),
    "an unknown name": (edit("enumerations", 5, "id", to="wish"), "verdict"),
    "what was compared": (edit("enumerations", 0, "compared", to=lambda n: n + 1), "verdict"),
    "nothing compared": (edit("enumerations", 2, "compared", to=0), "verdict"),
    "a claim": (edit("enumerations", 2, "claim", to="every branch of every round"), "verdict"),
    "an id of a support": (edit("enumerations", 0, "values", "flat/ids", 31, to=32), "verdict"),
    "the ids of a support left out": (without("enumerations", 0, "values", key="flat/ids"), "verdict"),
    "a block read elsewhere": (edit("enumerations", 4, "values", "elsewhere", 0, to=1), "verdict"),
    "an enumeration twice": (again(), "verdict"),
    "an enumeration twice, the first wrong": (
        again(edit("enumerations", 0, "values", "flat", 3, to=lambda n: n + 1)),
        "verdict",
    ),
    "two enumerations in another order": (edit("enumerations", to=lambda old: [old[1], old[0], *old[2:]]), "verdict"),
    "the backend of a GPU": (edit("sampler", "backend", to="cuda"), "verdict"),
}
ORACLE: dict[str, tuple[Change, str]] = {
    "an unknown field of a policy": (edit("policies", 0, to=lambda old: old | {"weight": 1}), "shape"),
    "the distances left out": (without("policies", 0, key="distances"), "shape"),
    "a survey that is no object": (edit("policies", 0, "survey", to=[]), "shape"),
    "a ticket": (edit("policies", 1, "survey", "tickets", 0, 0, to=lambda n: n + 1), BRIDGED),
    "a ticket of a policy that never reads it": (
        edit("policies", 3, "survey", "tickets", 2, to=lambda old: [old[0] + 1, *old[1:]]),
        BRIDGED,
    ),
    "an id": (edit("policies", 0, "survey", "ids", 0, 31, to=lambda n: n + 1), BRIDGED),
    "a row of tickets left out": (drop("policies", 0, "survey", "tickets"), BRIDGED),
    "a rational": (edit("policies", 0, "survey", "bridges", 0, "largest", "ratio", to=longer), BRIDGED),
    "a double": (edit("policies", 0, "survey", "bridges", 0, "designMean", "double", to="4.5"), BRIDGED),
    "a variation": (edit("policies", 1, "survey", "bridges", 3, "variations", 0, 2, to="0/1"), BRIDGED),
    "a length of the design": (edit("policies", 2, "survey", "bridges", 5, "designLengths", 1, to=longer), BRIDGED),
    "a length of the device": (edit("policies", 2, "survey", "bridges", 5, "deviceLengths", 1, to=longer), BRIDGED),
    "the mean": (edit("policies", 2, "survey", "bridges", 5, "deviceMean", "ratio", to="4/1"), BRIDGED),
    "the bound": (edit("policies", 0, "survey", "bridges", 0, "bound", to="1/1"), BRIDGED),
    "a round left out": (drop("policies", 0, "survey", "bridges", at=3), BRIDGED),
    "a pattern of invalidated drafts": (edit("policies", 0, "survey", "bridges", 1, "void", 1, to=1), BRIDGED),
    "a depth": (edit("policies", 0, "survey", "bridges", 0, "depth", to=5), BRIDGED),
    "a fault made up": (edit("policies", 0, "survey", "bridges", 0, "fault", to={"row": 1}), BRIDGED),
    "that a round stands": (edit("policies", 0, "survey", "bridges", 0, "ok", to=False), BRIDGED),
    "that a round stands, as a number": (edit("policies", 0, "survey", "bridges", 0, "ok", to=1), BRIDGED),
    "that a survey stands": (edit("policies", 0, "survey", "ok", to=False), BRIDGED),
    "how much differs": (edit("policies", 0, "survey", "differing", to=1), BRIDGED),
    "the digest of a law": (edit("policies", 0, "survey", "lawSha256", to=flipped), BRIDGED),
    "draws made up": (edit("policies", 0, "survey", "drawn", to=[]), BRIDGED),
    "an unknown field of a survey": (edit("policies", 0, "survey", to=lambda old: old | {"more": 1}), BRIDGED),
    "a field of a survey left out": (without("policies", 0, "survey", key="drawn"), BRIDGED),
    "a survey of nothing": (edit("policies", 0, "survey", to={}), BRIDGED),
    "a distance": (edit("policies", 0, "distances", 0, "emitted", 1, to=lambda text: text[:-1] + "0"), BRIDGED),
    "how many tickets moved": (edit("policies", 0, "distances", 0, "moved", to=lambda n: n + 1), BRIDGED),
    "distances of another policy": (
        lambda s: s["predicate"]["policies"][0].update(distances=s["predicate"]["policies"][3]["distances"]),
        BRIDGED,
    ),
    "a row of distances left out": (drop("policies", 0, "distances"), BRIDGED),
    "two names exchanged": (swap("policies", "target", one=0, other=1), BRIDGED),
    "a ticket, and all that follows from it but the verdict": (
        both(
            edit("policies", 0, "survey", "tickets", 0, to=lambda old: [n - 1 if n == max(old) else n for n in old]),
            survey_anew,
        ),
        "verdict",
    ),
    "an unknown name": (edit("policies", 0, "survey", "target", to="wish"), "verdict"),
    "a policy left out": (drop("policies"), "verdict"),
    "all policies left out": (edit("policies", to=[]), "verdict"),
    "a policy there twice": (edit("policies", to=lambda old: [*old, old[0]]), "verdict"),
    "two policies exchanged": (edit("policies", to=lambda old: [old[1], old[0], *old[2:]]), "verdict"),
    "the backend of a GPU, whose draws were not counted": (edit("sampler", "backend", to="cuda"), "verdict"),
}
