"""The kernels' launchers: what each refuses."""

from typing import Any

import numpy as np
import pytest
import torch
from kernel_arguments import poisoned, propose_arguments, verify_arguments

from pp3.kernels import proposal, verifier
from pp3.kernels.reference import OK


def test_the_calls_the_refusals_start_from_work() -> None:
    with np.errstate(all="ignore"):
        assert proposal.propose(**propose_arguments()).status.tolist() == [OK, OK]
        assert verifier.verify(**verify_arguments()).status.tolist() == [OK, OK]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"logits": torch.zeros(2, 40, dtype=torch.float64)}, r"\(2, 40\) torch.float64", id="fp64"),
        pytest.param({"logits": torch.zeros(40)}, r"logits are \(40,\)", id="one-axis"),
        pytest.param({"logits": torch.zeros(2, 31)}, r"vocabulary 31 is outside \[32, 262144\]", id="vocab-31"),
        pytest.param({"logits": torch.zeros(2, 2**18 + 1)}, "vocabulary 262145", id="vocab-above-2^18"),
        pytest.param({"tau": float("nan")}, "tau nan must be finite", id="tau-nan"),
        pytest.param({"tau": -0.5}, r"tau -0\.5 must be finite and >= 0", id="tau-negative"),
        pytest.param({"sampled": torch.ones(2, dtype=torch.bool)}, r"sampled is \(2,\) torch.bool", id="bool-sampled"),
        pytest.param({"sampled": torch.ones(3, dtype=torch.int32)}, r"sampled is \(3,\)", id="three-sampled"),
        pytest.param({"keys": torch.zeros(2, dtype=torch.int32)}, r"keys is \(2,\) torch.int32", id="int32-keys"),
        pytest.param({"rounds": torch.zeros(2, 1, dtype=torch.int64)}, r"rounds is \(2, 1\)", id="rounds-of-two-axes"),
        pytest.param(
            {"positions": torch.zeros(4, dtype=torch.int64)[::2]},
            r"positions .*want contiguous \[2\]",
            id="positions-apart",
        ),
        pytest.param({"column": 1}, r"column 1 is outside the 1 columns", id="column-past-the-depth"),
        pytest.param({"column": -1}, "column -1", id="column-negative"),
        pytest.param({"out": poisoned(3, 1)}, r"out\.status is \(3,\)", id="other-batch"),
    ],
)
def test_propose_refuses(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        proposal.propose(**propose_arguments() | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"target_probs": torch.zeros(2, 5, 64).double()}, r"\(2, 5, 64\) torch.float64", id="fp64"),
        pytest.param({"target_probs": torch.zeros(2, 64)}, r"target_probs are \(2, 64\)", id="two-axes"),
        pytest.param({"target_probs": torch.zeros(2, 5, 2**18 + 1)}, "vocabulary 262145", id="vocab-above-2^18"),
        pytest.param({"target_probs": torch.zeros(2, 5, 0)}, "vocabulary 0 is outside", id="vocab-0"),
        pytest.param({"target_probs": torch.zeros(2, 6, 64)}, r"draft_ids is \(2, 4\)", id="other-depth"),
        pytest.param(
            {"draft_ids": torch.zeros(2, 4, dtype=torch.int64)}, "draft_ids .* torch.int64", id="int64-drafts"
        ),
        pytest.param({"support": None}, "support and tickets go together", id="tickets-alone"),
        pytest.param({"tickets": None}, "support and tickets go together", id="support-alone"),
        pytest.param(
            {"tickets": torch.zeros(2, 4, 31, dtype=torch.int32)}, r"tickets is \(2, 4, 31\)", id="31-tickets"
        ),
        pytest.param({"sampled": torch.ones(2)}, r"sampled is \(2,\) torch.float32", id="float-sampled"),
        pytest.param({"keys": torch.zeros(1, dtype=torch.int64)}, r"keys is \(1,\)", id="one-key"),
        pytest.param({"rounds": torch.zeros(2)}, "rounds .* torch.float32", id="float-rounds"),
        pytest.param(
            {"positions": torch.zeros(4, dtype=torch.int64)[::2]}, "positions .*contiguous", id="positions-apart"
        ),
    ],
)
def test_verify_refuses(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verifier.verify(**verify_arguments() | changed)
