"""The suite: what each device owes, and that one wrong integer fails it."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from exact_owed import CLAIMS, EXPECTED, MODULES, RIGHT, right

from pp3.harness.backends import Backend, Reference
from pp3.harness.exact import counters, draws, edges, exponential, invariance, pairs, suite, tree
from pp3.harness.exact.enumeration import Enumeration
from pp3.harness.verdict import Verdict

REFERENCE = {"backend": "reference", "name": "pp3-top32", "version": "1.2"}
CUDA = REFERENCE | {"backend": "cuda"}
ANSWERS = {"file": "vectors.json", "passed": 3, "sha256": "", "total": 3}
HELD: dict[str, Any] = {"bits": [], "conform": [ANSWERS], "identity": {"backend": "reference"}}
ON_GPU = HELD | {"identity": {"backend": "cuda", "gpu": "NVIDIA H200"}}
ON_REFERENCE: dict[str, Callable[[], Enumeration]] = {
    "edges": lambda: edges.observe(Reference()),
    "tree": lambda: tree.observe(Reference()),
    "exponential": exponential.observe_reference,
    "counters": counters.observe,
    "invariance": invariance.observe_reference,
    "pairs": lambda: pairs.observe(Reference(), False),
}


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What must be observed, computed once for all tests of this file."""
    monkeypatch.setattr(suite, "expected", EXPECTED)
    monkeypatch.setattr(suite, "right", RIGHT)


ONE = suite.right


def test_the_expected_are_those_of_each_module() -> None:
    """By name and device; nothing is left out."""
    assert tuple(CLAIMS) == suite.IDS
    assert EXPECTED("draws", False) == draws.expect(list(suite.ON_CPU))
    assert EXPECTED("edges", True) == EXPECTED("edges", False) == edges.expect()
    assert EXPECTED("tree", True) == EXPECTED("tree", False)
    assert EXPECTED("exponential", True) == exponential.expect()
    assert EXPECTED("exponential", False) == {"hard": exponential.expect()["hard"]}
    assert EXPECTED("invariance", False) == invariance.expect(gpu=False)
    assert EXPECTED("pairs", True) == pairs.expect(gpu=True)
    assert EXPECTED("counters", True) == EXPECTED("counters", False)


@pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])
def test_the_right_are_the_expected_with_claim_and_size(gpu: bool) -> None:
    """Those of each module, and the numbers as they were once counted."""
    compared = {
        "draws": (256 if gpu else 8) * ((1 << 24) + 64),
        "edges": 35_448,
        "tree": 3840 + 9216,
        "exponential": 1_107_558_401 if gpu else 4,
        "counters": 2_214_924,
        "invariance": 270_344 if gpu else 5022,
        "pairs": 7632 if gpu else 7158,
    }
    assert tuple(compared) == suite.IDS
    for which in suite.IDS:
        found = RIGHT(which, gpu)
        assert (found.id, found.claim, found.compared) == (which, CLAIMS[which], compared[which])
        assert found.values == EXPECTED(which, gpu)


@pytest.mark.parametrize("which", MODULES)
def test_only_the_one_that_was_asked_for_is_computed(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size too: those of others take seconds."""

    wanted = RIGHT(which, False)

    def other(*_: Any) -> Any:
        raise AssertionError("another enumeration was computed")

    for name, module in MODULES.items():
        for function in ("expect", "size", "ledger", "vocabularies"):
            if name != which and hasattr(module, function):
                monkeypatch.setattr(module, function, other)
    monkeypatch.setattr(MODULES[which], "expect", lambda *_: dict(wanted.values))
    assert ONE(which, False) == wanted


@pytest.mark.parametrize("which", ON_REFERENCE)
def test_the_right_are_what_the_reference_observes(which: str) -> None:
    """Claim, number and integers; the draws take minutes and are left to the soak."""
    assert ON_REFERENCE[which]() == RIGHT(which, False)


def test_the_supports_of_each_device() -> None:
    names = [name for name, _ in draws.rows()]
    assert suite.supports(gpu=True) == names
    assert suite.supports(gpu=False) == list(suite.ON_CPU)
    assert set(suite.ON_CPU) < set(names)
    assert len(suite.ON_CPU) == 8


@pytest.mark.parametrize(("sampler", "gpu"), [(REFERENCE, False), (CUDA, True)], ids=["cpu", "gpu"])
def test_right_integers_pass(sampler: dict[str, Any], gpu: bool) -> None:
    rows = right(gpu)
    found = suite.conclude(rows, sampler, ON_GPU if gpu else HELD)
    assert (found.verdict, found.reasons) == (Verdict.PASS, [])
    assert found.sentence.startswith("PASS: ")
    assert found.sentence.endswith("every integer is the one it must be. Self-attested.")
    (ledger,) = (row["compared"] for row in rows if row["id"] == "counters")
    met = sum(row["compared"] for row in rows) - ledger
    where = "the ledger of the NumPy reference" if gpu else "its ledger"
    assert f": {met:,} draws, edges, rounds, values and rows enumerated; " in found.sentence
    assert f"; {ledger:,} words and keys in {where}; every integer" in found.sentence
    assert ("PASS: the NumPy reference of pp3-top32 1.2: " in found.sentence) == (not gpu)
    assert ("PASS: the Triton kernels of pp3-top32 1.2 on NVIDIA H200: " in found.sentence) == gpu


def test_a_gpu_is_held_to_more_than_a_cpu() -> None:
    """The integers of a CPU do not pass for those of a GPU, nor the other way round."""
    assert suite.conclude(right(gpu=False), CUDA, ON_GPU).verdict is Verdict.FAIL
    assert suite.conclude(right(gpu=True), REFERENCE, HELD).verdict is Verdict.FAIL
    nameless = HELD | {"identity": {"backend": "cuda"}}
    assert "on a GPU" in suite.conclude(right(gpu=True), CUDA, nameless).sentence


def integers() -> Iterator[tuple[str, str, int]]:
    """Some integers of each entry kind: the first and last of a list, a digest."""
    for which in suite.IDS:
        for key, values in EXPECTED(which, False).items():
            if which == "edges" and not key.startswith(("disjoint/row-0", "context/row-3")):
                continue
            yield which, key, 0
            if isinstance(values, list) and len(values) > 1:
                yield which, key, len(values) - 1


def test_one_wrong_integer_fails() -> None:
    """And is named, with what it must be."""
    met = list(integers())
    assert {which for which, _, _ in met} == set(suite.IDS)
    for which, key, at in met:
        rows = right()
        values = next(row["values"] for row in rows if row["id"] == which)
        old = values[key]
        if isinstance(old, str):
            values[key] = old[:-1] + ("0" if old[-1] != "0" else "1")
            reason = f"{which}: {key} is {values[key]}, must be {old}"
        else:
            old[at] += 1
            reason = f"{which}: {key}[{at}] is {old[at]}, must be {old[at] - 1}"
        found = suite.conclude(rows, REFERENCE, HELD)
        assert (found.verdict, found.reasons) == (Verdict.FAIL, [reason])
        assert found.sentence.endswith(f"; {reason}. Self-attested.")


@pytest.mark.parametrize("which", suite.IDS)
def test_what_did_not_run_is_inconclusive(which: str) -> None:
    found = suite.conclude([row for row in right() if row["id"] != which], REFERENCE, HELD)
    assert (found.verdict, found.reasons) == (Verdict.INCONCLUSIVE, [f"{which}: not run"])


def test_nothing_ran() -> None:
    found = suite.conclude([], REFERENCE, HELD)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reasons == [f"{which}: not run" for which in suite.IDS]


def test_an_unknown_enumeration_fails() -> None:
    wish = {"id": "wish", "claim": "", "values": {}, "compared": 1}
    found = suite.conclude([*right(), wish], REFERENCE, HELD)
    order = f"enumerations are {', '.join((*suite.IDS, 'wish'))}; want {', '.join(suite.IDS)}"
    assert (found.verdict, found.reasons) == (Verdict.FAIL, [order, "wish: unknown enumeration"])


@pytest.mark.parametrize("which", suite.IDS)
@pytest.mark.parametrize(("key", "to"), [("claim", "all is well"), ("compared", 1)])
def test_another_claim_or_number_fails(key: str, to: Any, which: str) -> None:
    rows = right()
    row = next(row for row in rows if row["id"] == which)
    reason = f"{which}: {key} is {to}, must be {row[key]}"
    row[key] = to
    found = suite.conclude(rows, REFERENCE, HELD)
    assert (found.verdict, found.reasons) == (Verdict.FAIL, [reason])


def test_an_enumeration_twice_fails() -> None:
    """Also where both are right; and a wrong one is named, whichever comes first."""
    for first in (False, True):
        rows = right()
        again, wrong = copy.deepcopy(rows[2]), copy.deepcopy(rows[2])
        wrong["values"]["depth-4/lengths"] = "0f"
        ids = ", ".join([*suite.IDS[:3], *suite.IDS[2:]])
        order = f"enumerations are {ids}; want {', '.join(suite.IDS)}"
        found = suite.conclude([*rows[:3], again, *rows[3:]], REFERENCE, HELD)
        assert (found.verdict, found.reasons) == (Verdict.FAIL, [order])
        both = [wrong, again] if first else [again, wrong]
        found = suite.conclude([*rows[:2], *both, *rows[3:]], REFERENCE, HELD)
        assert found.verdict is Verdict.FAIL
        assert [reason.partition(" is ")[0] for reason in found.reasons[1:]] == ["tree: depth-4/lengths"]


def test_another_order_fails() -> None:
    found = suite.conclude(right()[::-1], REFERENCE, HELD)
    order = f"enumerations are {', '.join(suite.IDS[::-1])}; want {', '.join(suite.IDS)}"
    assert (found.verdict, found.reasons) == (Verdict.FAIL, [order])


@pytest.mark.parametrize(
    ("backend", "change", "reason"),
    [
        pytest.param(
            "interpreter",
            {"identity": {"backend": "interpreter"}},
            "backend interpreter is judged by no enumeration; want reference, cuda",
            id="the-interpreter",
        ),
        pytest.param(
            "reference",
            {"identity": {"backend": "cuda"}},
            "the identity is that of cuda, the sampler ran on reference",
            id="the-identity-of-a-gpu",
        ),
        pytest.param(
            "reference",
            {"identity": {}},
            "the identity is that of None, the sampler ran on reference",
            id="no-identity",
        ),
        pytest.param(
            "reference",
            {"conform": [ANSWERS, ANSWERS | {"passed": 2}]},
            "known answers of vectors.json: 2 of 3 passed",
            id="a-known-answer-missed",
        ),
        pytest.param(
            "reference",
            {"conform": [ANSWERS | {"passed": 0, "total": 0}]},
            "known answers of vectors.json: 0 of 0 passed",
            id="a-file-without-answers",
        ),
    ],
)
def test_kernels_that_are_not_held_fail(backend: str, change: dict[str, Any], reason: str) -> None:
    """Though every integer is right; and they come before what did not run."""
    sampler = REFERENCE | {"backend": backend}
    found = suite.conclude(right(), sampler, HELD | change)
    assert (found.verdict, found.reasons) == (Verdict.FAIL, [reason])
    assert found.sentence.endswith(f"; {reason}. Self-attested.")
    found = suite.conclude(right()[1:], sampler, HELD | change)
    assert (found.verdict, found.reasons) == (Verdict.FAIL, [reason, "draws: not run"])


def test_what_is_wrong_outweighs_what_is_missing() -> None:
    rows = right()[1:]
    rows[0]["values"]["disjoint/row-0/accepting"][3] += 1
    found = suite.conclude(rows, REFERENCE, HELD)
    assert found.verdict is Verdict.FAIL
    assert [reason.partition(":")[0] for reason in found.reasons] == ["edges", "draws"]


def test_a_key_left_out_or_added_fails() -> None:
    rows = right()
    del rows[0]["values"]["flat"]
    rows[4]["values"]["more"] = [0]
    assert suite.conclude(rows, REFERENCE, HELD).reasons == [
        "draws: flat is None, must be 34 integers",
        "counters: more is 1 integers, must be None",
    ]


@pytest.mark.soak
def test_the_whole_suite_on_a_cpu() -> None:
    found = suite.observe(Backend.REFERENCE, lambda *progress: None)
    assert suite.conclude([one.plain() for one in found], REFERENCE, HELD).reasons == []


@pytest.mark.gpu
def test_the_whole_suite_on_a_gpu() -> None:
    found = suite.observe(Backend.CUDA, lambda *progress: None)
    assert suite.conclude([one.plain() for one in found], CUDA, ON_GPU).reasons == []
