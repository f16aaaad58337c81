"""End to end on the CPU: each planted sampler fails the default campaign, at the check it should; the clean one passes.

The seed is fixed, so nothing here is flaky; each fault's size is far above what the failing check sees.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted_references import (
    Planted,
    acceptance_word_for_the_residual,
    always_accepts,
    bonus_from_another_row,
    late_context,
    one_impossible_token,
    one_in_fifty_without_check,
    residual_from_the_target,
    row_0_for_every_context,
    same_draw_twice,
    tau_1_drawn,
    tau_1_throughout,
)

from pp3.harness import campaign, run
from pp3.harness.campaign import Campaign
from pp3.harness.conform import KNOWN_ANSWERS
from pp3.harness.run import Measured
from pp3.harness.samplers import reference as sampler_module
from pp3.harness.samplers.contract import Batch, Emission, Sampler
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.verdict import Judgement, Verdict, conclude
from pp3.targets import build

Patch = pytest.MonkeyPatch
KERNELS: dict[str, Any] = {
    "bits": [{"id": "by hand", "rows": 1, "failedRows": 0, "mismatches": 0, "first": ""}],
    "conform": [{"file": name, "passed": 1, "total": 1, "sha256": ""} for name in KNOWN_ANSWERS],
    "identity": {},
}
WHO = {"name": "planted", "version": "0", "backend": "reference"}
SEED = Seed(bytes(range(32)))


@pytest.fixture(scope="module")
def chosen() -> Campaign:
    """The default campaign: 20,000 requests a target; few pairs, for they are not what is tested here."""
    return campaign.of_document({"paired": 1000}, "a test")


def qualify(chosen: Campaign, sampler: Sampler) -> tuple[Measured, Judgement]:
    """Run and judge."""
    measured = Measured(sampler=sampler.describe())
    run._campaign(chosen, SEED, sampler, measured, lambda stage, done, total: None)
    judgement = conclude(chosen, measured.counts, measured.first, measured.breaches, measured.pairs, KERNELS, WHO)
    return measured, judgement


def test_the_clean_sampler_passes(chosen: Campaign) -> None:
    measured, judgement = qualify(chosen, ReferenceSampler())
    assert (judgement.verdict, judgement.reasons) == (Verdict.PASS, [])
    assert measured.requests == 100_000
    assert sum(row["pairs"] for row in measured.pairs) == 1000
    assert not any(measured.breaches.values())
    assert measured.strays == []
    assert {test.outcome for test in judgement.tests if test.required} == {"pass"}
    assert {test.outcome for test in judgement.tests} == {"pass", "certain", "unresolved"}
    assert not any(row["below"] for row in judgement.seed_family)


def test_the_planted_shell_alone_passes(chosen: Campaign) -> None:
    assert qualify(chosen, Planted())[1].verdict is Verdict.PASS


@pytest.fixture(autouse=True)
def fresh_tables() -> Any:
    """No table made under a patch outlives it."""
    sampler_module._tables.cache_clear()
    yield
    sampler_module._tables.cache_clear()


@pytest.mark.parametrize(
    ("plant", "caught_by"),
    [
        pytest.param(
            residual_from_the_target,
            ["sparse-tail/depth-4/residual/position-0: ", "context/depth-5/token/position-0: "],
            id="residual-from-p",
        ),
        pytest.param(
            bonus_from_another_row,
            ["equal-q/depth-4/bonus: ", "context/depth-5/bonus: "],
            id="bonus-from-the-wrong-row",
        ),
        pytest.param(
            always_accepts,
            [
                "disjoint/depth-4/token/position-0: ",
                "context/depth-4/token/position-0: ",
                "sparse-tail/depth-5/length: ",
            ],
            id="always-accepts",
        ),
        pytest.param(
            tau_1_throughout,
            ["context/depth-4/proposal/position-0: ", "equal-q/depth-5/proposal/position-0: "],
            id="tau-1-in-draws-and-tickets",
        ),
        pytest.param(
            tau_1_drawn,
            ["context/depth-4/proposal/position-0: ", "equal-q/depth-5/token/position-0: "],
            id="tau-1-drawn-0.7-declared",
        ),
        pytest.param(same_draw_twice, ["context/depth-4/proposal/position-1: "], id="one-word-for-all-positions"),
        pytest.param(
            acceptance_word_for_the_residual,
            ["sparse-tail/depth-4/residual/position-0: ", "context/depth-4/residual/position-0: "],
            id="one-word-for-acceptance-and-residual",
        ),
        pytest.param(
            row_0_for_every_context,
            ["context/depth-4/proposal/position-1: ", "context/depth-4/token/position-1: "],
            id="row-0-for-every-context",
        ),
        pytest.param(late_context, ["context/depth-5/token/position-1: "], id="context-one-step-behind"),
        pytest.param(
            one_impossible_token,
            ["disjoint/depth-5/token/position-0: 2 outcomes of zero probability"],
            id="one-impossible-token",
        ),
        pytest.param(
            one_in_fifty_without_check, ["disjoint/depth-4/token/position-0: "], id="one-in-fifty-without-check"
        ),
    ],
)
def test_planted_faults_fail(
    plant: Callable[[Patch], Sampler], caught_by: list[str], chosen: Campaign, monkeypatch: Patch
) -> None:
    measured, judgement = qualify(chosen, plant(monkeypatch))
    assert judgement.verdict is Verdict.FAIL
    for check in caught_by:
        assert any(reason.startswith(check) for reason in judgement.reasons), (check, judgement.reasons)
    assert not any(count for name, count in measured.breaches.items() if name != "unreachable")
    assert judgement.sentence.startswith(
        "FAIL: the NumPy reference of planted 0 does not emit the exact law of 5 targets"
    )
    json.dumps(measured.strays)  # plain integers and strings


def test_the_impossible_token_is_named(chosen: Campaign, monkeypatch: Patch) -> None:
    measured, judgement = qualify(chosen, one_impossible_token(monkeypatch))
    token = int(np.flatnonzero(build("disjoint").weights.sum(axis=0) == 0)[0])
    kinds = ("token", "residual")
    assert measured.strays == [
        {"batch": 3, "cell": f"disjoint/depth-5/{kind}/position-0/context-0", "count": 2, "outcome": token}
        for kind in kinds
    ]
    assert len(judgement.reasons) == 2


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        pytest.param("status", 1, "20 x failed", id="failed"),
        pytest.param("num_sampled", 9, "20 x illegal-length", id="length"),
        pytest.param("tokens", 1 << 20, "20 x illegal-token", id="token"),
    ],
)
def test_a_broken_contract_is_invalid(field: str, value: int, reason: str, chosen: Campaign) -> None:
    """One request in each half of every target and depth at batch 2: INVALID comes before FAIL."""

    def after(batch: Batch, emission: Emission) -> Emission:
        if batch.rows_per_launch != 2 or not batch.sampled.all():
            return emission
        array = getattr(emission, field).copy()
        row = int(np.flatnonzero((emission.num_sampled == 1) | (emission.num_sampled == batch.depth + 1))[0])
        array[(row, emission.num_sampled[row] - 1) if field == "tokens" else row] = value
        return replace(emission, **{field: array})

    judgement = qualify(chosen, Planted(after=after))[1]
    assert (judgement.verdict, judgement.reasons[0]) == (Verdict.INVALID, reason)


@pytest.mark.parametrize(
    ("changed", "verdict", "reason"),
    [
        pytest.param({"bits": []}, Verdict.INCONCLUSIVE, "bits of the kernels: not run", id="no-bits"),
        pytest.param({"conform": []}, Verdict.INCONCLUSIVE, "known answers: no vectors found", id="no-known-answers"),
        pytest.param(
            {"bits": [{"id": "x", "rows": 9, "failedRows": 0, "mismatches": 1, "first": "batch: row 3"}]},
            Verdict.FAIL,
            "1 of 9 rows differ: x",
            id="one-row",
        ),
        pytest.param(
            {"conform": [KERNELS["conform"][0], KERNELS["conform"][1] | {"passed": 8, "total": 9}]},
            Verdict.FAIL,
            "1 known answers missed in verify.json",
            id="one-answer",
        ),
    ],
)
def test_what_is_said_of_the_kernels_counts(
    changed: dict[str, Any], verdict: Verdict, reason: str, chosen: Campaign
) -> None:
    measured, _ = qualify(chosen, ReferenceSampler())
    kernels = KERNELS | changed
    judgement = conclude(chosen, measured.counts, measured.first, measured.breaches, measured.pairs, kernels, WHO)
    assert (judgement.verdict, judgement.reasons) == (verdict, [reason])


def test_no_pairs_are_inconclusive(chosen: Campaign) -> None:
    without = campaign.of_document({"paired": 0}, "a test")
    judgement = qualify(without, ReferenceSampler())[1]
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.reasons == ["paired temperature 0: no pairs were asked for"]


def test_too_few_requests_are_inconclusive() -> None:
    few = campaign.of_document({"requests": 40, "paired": 30}, "a test")
    judgement = qualify(few, ReferenceSampler())[1]
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert all("too few events" in reason for reason in judgement.reasons)
