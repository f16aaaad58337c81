"""The bridge: every policy, and what a wrong device comes to."""

import copy
from typing import Any

import numpy as np
import pytest
from wrong_devices import Emits, OneIdTwice, OneTicketLost, OneTicketMoved

from pp3.harness import backends, canonical
from pp3.harness.backends import Backend, Reference
from pp3.harness.errors import VerificationError
from pp3.harness.exact import draws, oracle
from pp3.harness.verdict import Verdict
from pp3.kernels.reference import ONE, SUPPORT, allocate
from pp3.targets.policies import POLICIES, build_policy

REFERENCE = {"backend": "reference", "name": "pp3-top32", "version": "1.2"}
CUDA = REFERENCE | {"backend": "cuda"}
HELD: dict[str, Any] = {
    "bits": [],
    "conform": [{"file": "vectors.json", "passed": 3, "sha256": "", "total": 3}],
    "identity": {"backend": "reference"},
}
ON_GPU = HELD | {"identity": {"backend": "cuda", "gpu": "NVIDIA H200"}}
ROUNDS = 11 * len(POLICIES)
Rows = list[dict[str, Any]]


def observe(backend: Backend = Backend.REFERENCE) -> Rows:
    """Every policy, as it is read back from a receipt."""
    found = oracle.observe(backend, lambda *progress: None)
    return list(canonical.decode(canonical.encode(found)))


@pytest.fixture(scope="module")
def observed() -> Rows:
    """What the reference emits; copy before changing."""
    return observe()


def counted(rows: list[tuple[str, Any]]) -> Any:
    """What a right GPU counts: the tickets of its own tables, none outside, none falling; and their ids."""
    found = {name: allocate(row[None]) for name, row in rows}
    counts = {name: [*one.tickets[0].tolist(), 0, 0] for name, one in found.items()}
    return counts | {f"{name}/ids": one.ids[0].tolist() for name, one in found.items()}


def on_gpu(monkeypatch: pytest.MonkeyPatch, count: Any = counted, arithmetic: type[Reference] = Reference) -> Rows:
    """Every policy as a GPU would show it, which emits by `arithmetic` and whose draws are counted by `count`."""
    monkeypatch.setattr(backends, "start", lambda backend: arithmetic())
    monkeypatch.setattr(draws, "count_cuda", count)
    return observe(Backend.CUDA)


def test_the_reference_passes(observed: Rows) -> None:
    found = oracle.conclude(observed, REFERENCE, HELD)
    assert (found.verdict, found.reasons) == (Verdict.PASS, [])
    assert found.sentence.startswith("PASS: the NumPy reference of pp3-top32 1.2: from the tickets it emitted, ")
    assert f"equals the target as a rational in {ROUNDS} rounds of {len(POLICIES)} policies" in found.sentence
    assert [row["survey"]["target"] for row in observed] == list(POLICIES)
    assert all(row["survey"]["drawn"] is None for row in observed)


def test_progress_is_by_policy() -> None:
    said: list[Any] = []
    oracle.observe(Backend.REFERENCE, lambda *progress: said.append(progress))
    assert said == [("policies", done, 4) for done in range(5)]


def test_the_kernels_emit_the_same_tables(observed: Rows) -> None:
    """In the interpreter: every integer of every policy."""
    assert observe(Backend.INTERPRETER) == observed


def test_distances_stand_beside_the_tables(observed: Rows) -> None:
    """A row each, largest remainder never farther from the ideal, both enclosed to 1e-20."""
    for row in observed:
        assert len(row["distances"]) == len(build_policy(row["survey"]["target"]).draft_logits)
        for one in row["distances"]:
            low, high = (float(end) for end in one["emitted"])
            assert 0 <= low <= high < 32 / ONE
            assert float(one["largestRemainder"][0]) <= high


def test_a_gpu_passes_with_its_draws_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = on_gpu(monkeypatch)
    assert all(len(row["survey"]["drawn"]) == len(row["survey"]["ids"]) for row in rows)
    found = oracle.conclude(rows, CUDA, ON_GPU)
    assert (found.verdict, found.reasons) == (Verdict.PASS, [])
    assert "the Triton kernels of pp3-top32 1.2 on NVIDIA H200" in found.sentence


def test_a_gpu_whose_draws_were_not_counted_fails(observed: Rows) -> None:
    found = oracle.conclude(observed, CUDA, ON_GPU)
    assert found.verdict is Verdict.FAIL
    assert found.reasons == [f"{name}: the draws of a GPU's tables were not enumerated" for name in POLICIES]


def one_moved(rows: list[tuple[str, Any]]) -> Any:
    """One draw of 2^24, of one row, gives the next token."""
    found = counted(rows)
    first, second = np.flatnonzero(np.array(found["0"][:SUPPORT]) > 1)[:2]
    found["0"][first] -= 1
    found["0"][second] += 1
    return found


def one_outside(rows: list[tuple[str, Any]]) -> Any:
    """One draw gives a token outside the support."""
    found = counted(rows)
    found["0"][int(np.argmax(found["0"][:SUPPORT]))] -= 1
    found["0"][SUPPORT] += 1
    return found


def one_lost(rows: list[tuple[str, Any]]) -> Any:
    """One draw is missing."""
    found = counted(rows)
    found["0"][int(np.argmax(found["0"][:SUPPORT]))] -= 1
    return found


@pytest.mark.parametrize(
    ("count", "breach"),
    [
        pytest.param(one_moved, "law", id="a-boundary-moved-by-one"),
        pytest.param(one_outside, "ids", id="a-draw-outside-the-support"),
        pytest.param(one_lost, "draws", id="a-draw-lost"),
    ],
)
def test_one_wrong_draw_fails(count: Any, breach: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every round of every policy that reads the row; one that rejects every draft cannot tell by its law."""
    found = oracle.conclude(on_gpu(monkeypatch, count), CUDA, ON_GPU)
    assert found.verdict is Verdict.FAIL
    assert found.reasons[0].startswith("identity, depth 4, void [")
    assert all(f"breach='{breach}'" in reason for reason in found.reasons)


@pytest.mark.parametrize("fault", [OneTicketMoved, OneTicketLost, OneIdTwice])
def test_a_wrong_table_fails_every_policy(fault: type[Emits], monkeypatch: pytest.MonkeyPatch) -> None:
    """And is judged again to the same end."""
    monkeypatch.setattr(backends, "start", lambda backend: fault())
    found = oracle.conclude(observe(), REFERENCE, HELD)
    assert found.verdict is Verdict.FAIL
    assert {reason.partition(":")[0].partition(",")[0] for reason in found.reasons} == set(POLICIES)
    assert found.sentence.endswith(f": {found.reasons[0]}. Self-attested.")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda rows: rows.pop(), id="one-left-out"),
        pytest.param(lambda rows: rows.append(copy.deepcopy(rows[0])), id="one-twice"),
        pytest.param(lambda rows: rows.reverse(), id="another-order"),
        pytest.param(lambda rows: rows[1]["survey"].update(target="wish"), id="an-unknown-one"),
        pytest.param(lambda rows: rows.clear(), id="none"),
    ],
)
def test_other_policies_fail(change: Any, observed: Rows) -> None:
    rows = copy.deepcopy(observed)
    change(rows)
    found = oracle.conclude(rows, REFERENCE, HELD)
    assert found.verdict is Verdict.FAIL
    assert found.reasons[0].endswith(f"they must be {', '.join(POLICIES)}")


@pytest.mark.parametrize(
    ("sampler", "change", "reason"),
    [
        pytest.param(
            REFERENCE | {"backend": "interpreter"},
            {"identity": {"backend": "interpreter"}},
            "backend interpreter is judged by no enumeration; want reference, cuda",
            id="the-interpreter",
        ),
        pytest.param(
            REFERENCE,
            {"identity": {"backend": "cuda"}},
            "the identity is that of cuda, the sampler ran on reference",
            id="the-identity-of-a-gpu",
        ),
        pytest.param(
            REFERENCE, {"identity": {}}, "the identity is that of None, the sampler ran on reference", id="no-identity"
        ),
        pytest.param(
            REFERENCE,
            {"conform": [HELD["conform"][0] | {"passed": 2}]},
            "known answers of vectors.json: 2 of 3 passed",
            id="a-known-answer-missed",
        ),
    ],
)
def test_kernels_that_are_not_held_fail(
    sampler: dict[str, Any], change: dict[str, Any], reason: str, observed: Rows
) -> None:
    """Though every table is right."""
    found = oracle.conclude(observed, sampler, HELD | change)
    assert (found.verdict, found.reasons) == (Verdict.FAIL, [reason])
    assert found.sentence.endswith(f": {reason}. Self-attested.")


def test_a_table_under_another_name_is_refused(observed: Rows) -> None:
    rows = copy.deepcopy(observed)
    rows[0]["survey"]["target"], rows[3]["survey"]["target"] = "disjoint", "identity"
    with pytest.raises((VerificationError, ValueError)):
        oracle.conclude(rows, REFERENCE, HELD)


def test_other_distances_are_refused(observed: Rows) -> None:
    rows = copy.deepcopy(observed)
    rows[2]["distances"][0]["moved"] += 1
    with pytest.raises(VerificationError, match="sparse: the distances from the softmax recompute to others"):
        oracle.conclude(rows, REFERENCE, HELD)


@pytest.mark.gpu
def test_every_policy_on_a_gpu(observed: Rows) -> None:
    """The reference's tables, and every draw of each counted."""
    rows = observe(Backend.CUDA)
    assert oracle.conclude(rows, CUDA, ON_GPU).reasons == []
    for one, other in zip(rows, observed, strict=True):
        assert (one["survey"]["ids"], one["distances"]) == (other["survey"]["ids"], other["distances"])
        assert one["survey"]["tickets"] == other["survey"]["tickets"]
