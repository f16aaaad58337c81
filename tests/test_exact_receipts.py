"""Receipts of enumerations and of the bridge: each verifies, and every tampering is caught at its own step."""

import copy
import functools
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from altered import both, edit, sealed
from exact_tampering import BRIDGED, COMMON, CONCLUDE, ENUMERATIONS, EXHAUSTIVE, ORACLE, rejudge

from pp3.harness import backends, canonical
from pp3.harness.backends import Backend
from pp3.harness.campaign import our_limits
from pp3.harness.errors import ReceiptError
from pp3.harness.evidence import receipt
from pp3.harness.evidence.shapes import check_shape
from pp3.harness.evidence.verify import verify
from pp3.harness.exact import oracle, suite
from pp3.harness.kernel_evidence import known_answers
from pp3.targets.policies import POLICIES

ROOT = Path(__file__).resolve().parent.parent
STARTED = datetime(2026, 11, 29, 16, 0, 13, tzinfo=UTC)
REVIEWED = ("ledger", "signature", "sources")  # skipped where nothing is given
STEPS = {
    "exhaustive": ["bytes", "name", "shape", "kernels", ENUMERATIONS, "verdict", "non-claims", *REVIEWED],
    "oracle": ["bytes", "name", "shape", "kernels", BRIDGED, "verdict", "non-claims", *REVIEWED],
}
RIGHT = functools.cache(suite.right)
Statement = dict[str, Any]
Change = Callable[[Statement], object]


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What must be observed, computed once; tests/test_exact_suite.py holds it to its modules."""
    monkeypatch.setattr(suite, "right", RIGHT)


def observed(kind: str) -> list[dict[str, Any]]:
    """What a right device on a CPU observes."""
    if kind == "oracle":
        return oracle.observe(Backend.REFERENCE, lambda *progress: None)
    return [RIGHT(which, False).plain() for which in suite.IDS]


def made(kind: str) -> Statement:
    """A statement as the command builds it."""
    rows = observed(kind)
    sampler = receipt.sampler_of(our_limits(), Backend.REFERENCE)
    identity = backends.identity(Backend.REFERENCE)
    kernels = {"bits": [], "conform": known_answers(Backend.REFERENCE), "identity": identity}
    return receipt.build_exact(kind, STARTED, sampler, kernels, rows, CONCLUDE[kind](rows, sampler, kernels))


@pytest.fixture(scope="module")
def originals() -> dict[str, Statement]:
    """One receipt of each kind; copy before changing."""
    return {kind: made(kind) for kind in STEPS}


@pytest.fixture
def statements(originals: dict[str, Statement]) -> dict[str, Statement]:
    """A fresh copy of each."""
    return copy.deepcopy(originals)


TAMPERED = [
    pytest.param(kind, change, step, id=f"{kind}: {name}")
    for kind, table in (("exhaustive", COMMON | EXHAUSTIVE), ("oracle", COMMON | ORACLE))
    for name, (change, step) in table.items()
]


@pytest.mark.parametrize("kind", STEPS)
def test_a_receipt_verifies(kind: str, originals: dict[str, Statement]) -> None:
    """Every step, in order; the sources are skipped, which is not ok."""
    found = sealed(originals[kind])
    assert [(step.name, step.outcome) for step in found.steps] == [
        (name, "skip" if name in REVIEWED else "ok") for name in STEPS[kind]
    ]
    assert (found.ok, found.verdict, found.current) == (True, "PASS", "unchecked")
    assert found.sentence == f"VERIFIED verdict=PASS sha256={found.sha256} assurance=self-attested current=unchecked"


@pytest.mark.parametrize("kind", STEPS)
def test_a_written_receipt_is_read_back(kind: str, originals: dict[str, Statement], tmp_path: Path) -> None:
    """Under its own name, and current in the tree that wrote it."""
    written = receipt.write(originals[kind], tmp_path)
    content, statement = receipt.read(written)
    assert statement == originals[kind]
    assert written.name == f"20261129T160013Z-{hashlib.sha256(content).hexdigest()}.json"
    assert verify(written, content, ROOT).current == "yes"


def test_the_kinds_bind_what_they_run(originals: dict[str, Statement]) -> None:
    """Each its own enumerations and the sampler's sources."""
    bound = {kind: {row["name"] for row in statement["subject"]} for kind, statement in originals.items()}
    assert {f"pp3/harness/exact/{which}.py" for which in suite.IDS} < bound["exhaustive"]
    for names in bound.values():
        assert {"pp3/kernels/reference.py", "pp3/kernels/verifier.py", "pp3/kernels/proposal.py"} < names
    assert {"pp3/harness/bridge.py", "pp3/harness/crossings.py", "pp3/targets/policies.py"} < bound["oracle"]


@pytest.mark.parametrize("kind", STEPS)
def test_one_kind_is_no_other(kind: str, statements: dict[str, Statement]) -> None:
    """A receipt under the other's kind has neither its fields nor its shape."""
    statements[kind]["predicate"]["kind"] = next(other for other in STEPS if other != kind)
    with pytest.raises(ReceiptError):
        check_shape(statements[kind])


@pytest.mark.parametrize(("kind", "change", "step"), TAMPERED)
def test_tampering_is_caught_at_its_own_step(
    kind: str, change: Change, step: str, statements: dict[str, Statement], originals: dict[str, Statement]
) -> None:
    """Re-canonicalised and renamed to its new digest, so that only the step that knows better can see it."""
    statement = statements[kind]
    change(statement)
    assert canonical.encode(statement) != canonical.encode(originals[kind])
    found = sealed(statement)
    before = STEPS[kind][: STEPS[kind].index(step)]
    assert list(dict.fromkeys(one.name for one in found.steps)) == [*before, step]  # profile and tool: once read
    assert [one.outcome for one in found.steps] == ["ok"] * (len(found.steps) - 1) + ["FAIL"]
    assert not found.ok
    assert found.sentence.startswith(f"NOT VERIFIED at {step}: ")
    assert "\n" not in found.sentence


def test_a_wrong_integer_judged_anew_is_an_authentic_fail(statements: dict[str, Statement]) -> None:
    """Whoever forges an observed integer can only make the receipt worse."""
    for change in (one for one, step in EXHAUSTIVE.values() if step == "verdict"):
        statement = copy.deepcopy(statements["exhaustive"])
        change(statement)
        rejudge(statement)
        found = sealed(statement)
        assert found.ok
        assert found.verdict in ("FAIL", "INCONCLUSIVE")


def test_a_gpu_without_counted_draws_is_an_authentic_fail(statements: dict[str, Statement]) -> None:
    """`drawn` null on CUDA cannot be made to pass."""
    statement = statements["oracle"]
    both(edit("sampler", "backend", to="cuda"), edit("kernels", "identity", "backend", to="cuda"), rejudge)(statement)
    found = sealed(statement)
    assert (found.ok, found.verdict) == (True, "FAIL")
    assert statement["predicate"]["reasons"] == [
        f"{name}: the draws of a GPU's tables were not enumerated" for name in POLICIES
    ]


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a known answer missed", "known answers of "),
        ("the identity of another backend", "the identity is that of cuda, the sampler ran on reference"),
        ("the identity without its backend", "the identity is that of None, the sampler ran on reference"),
        ("the backend interpreter", "backend interpreter is judged by no enumeration; want reference, cuda"),
    ],
)
def test_kernels_judged_anew_are_an_authentic_fail(
    name: str, reason: str, kind: str, statements: dict[str, Statement]
) -> None:
    """For that alone, since every integer is right."""
    both(COMMON[name][0], rejudge)(statements[kind])
    found = sealed(statements[kind])
    assert (found.ok, found.verdict) == (True, "FAIL")
    (said,) = statements[kind]["predicate"]["reasons"]
    assert said.startswith(reason)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("name", ["the profile", "the tool", "no tool"])
def test_another_profile_or_tool_cannot_be_judged_anew(name: str, kind: str, statements: dict[str, Statement]) -> None:
    both(COMMON[name][0], rejudge)(statements[kind])
    assert sealed(statements[kind]).sentence.endswith("; want exact, pp3")


@pytest.mark.parametrize("name", ["a policy left out", "an unknown name", "two policies exchanged"])
def test_other_policies_judged_anew_are_an_authentic_fail(name: str, statements: dict[str, Statement]) -> None:
    both(ORACLE[name][0], rejudge)(statements["oracle"])
    found = sealed(statements["oracle"])
    assert (found.ok, found.verdict) == (True, "FAIL")


def test_every_step_has_a_tampering_that_it_catches() -> None:
    """But for the bytes, the name and the sources; an enumeration is judged, so its step fails on odd types alone."""
    caught = {step for _, step in (COMMON | EXHAUSTIVE | ORACLE).values()}
    assert caught == {"shape", "kernels", BRIDGED, "verdict", "non-claims"}


@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError])
@pytest.mark.parametrize("kind", STEPS)
def test_an_error_of_a_step_is_that_step(
    kind: str, error: type[Exception], originals: dict[str, Statement], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that no honest receipt holds ends in a verdict."""

    def fails(*given: Any) -> Any:
        raise error("odd")

    monkeypatch.setattr(suite if kind == "exhaustive" else oracle, "conclude", fails)
    found = sealed(originals[kind])
    assert found.steps[-1].name == STEPS[kind][4]
    assert found.sentence.startswith(f"NOT VERIFIED at {STEPS[kind][4]}: {error.__name__}: ")


ODD: list[Any] = [None, True, -1, 2**53 - 1, "", "x", "1e400", [], [[]], {}, {"a": 1}]


def crashes(statement: Statement, place: Any, keys: list[Any], path: str, deepest: int) -> list[str]:
    """Every value below a place replaced by odd ones, sealed anew; what raised."""
    found = []
    for key in keys:
        name, old = f"{path}.{key}", place[key]
        for odd in ODD:
            place[key] = copy.deepcopy(odd)
            try:
                sealed(statement, ROOT if path == "statement" else None)
            except Exception as error:
                found.append(f"{name} = {odd!r}: {type(error).__name__}: {error}")
        place[key] = old
        if deepest and isinstance(old, dict):
            below = list(old) if len(old) < 20 else list(old)[:2]
            found += crashes(statement, old, below, name, deepest - 1)
        elif deepest and isinstance(old, list) and old:
            found += crashes(statement, old, [0], name, deepest - 1)
    return found


@pytest.mark.parametrize("kind", STEPS)
def test_no_value_of_any_kind_makes_verification_raise(kind: str, statements: dict[str, Statement]) -> None:
    """Each value replaced by one of another kind and sealed anew: a verdict, never a crash."""
    statement = statements[kind]
    if kind == "oracle":  # disjoint alone, which takes milliseconds to judge: an authentic FAIL
        both(edit("policies", to=lambda old: old[-1:]), rejudge)(statement)
        assert sealed(statement).ok
    found = crashes(statement, statement, ["subject"], "statement", 2)
    found += crashes(statement, statement["predicate"], list(statement["predicate"]), "predicate", 6)
    assert found == []
