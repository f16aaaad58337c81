"""Verification of bytes: no bit may flip, nothing may be cut off, and no value of any kind makes it raise."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from altered import flipped, reseal_plan, sealed

from pp3.harness import campaign as campaigns
from pp3.harness import canonical
from pp3.harness.campaign import Campaign
from pp3.harness.evidence.verify import verify

ROOT = Path(__file__).resolve().parent.parent
FLIPS = 300


def test_a_renamed_receipt_is_caught_at_its_name(real_receipt: Path) -> None:
    """The digest in the name is the first thing that is compared."""
    content = real_receipt.read_bytes()
    stem, _, digest = real_receipt.stem.rpartition("-")
    for name in (f"{stem}-{flipped(digest)}.json", f"{stem}.json", "receipt.json", f"{digest[:16]}.json"):
        found = verify(Path(name), content)
        assert [step.name for step in found.steps] == ["bytes", "name"]
        assert not found.ok


def test_no_single_bit_may_flip(real_receipt: Path, rng: np.random.Generator) -> None:
    """Anywhere in the file."""
    content = real_receipt.read_bytes()
    for place, bit in zip(rng.integers(0, len(content), FLIPS), rng.integers(0, 8, FLIPS), strict=True):
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        found = verify(real_receipt, bytes(changed))
        assert not found.ok, (place, bit)
        assert found.steps[-1].name in ("bytes", "name"), (place, bit)


@pytest.mark.parametrize("kept", [0, 1, 4096, -2, -1])
def test_a_truncated_receipt_is_caught_at_its_bytes(kept: int, real_receipt: Path) -> None:
    """And said to be truncated, in one line."""
    found = verify(real_receipt, real_receipt.read_bytes()[:kept])
    assert [(step.name, step.outcome) for step in found.steps] == [("bytes", "FAIL")]
    assert "truncated" in found.sentence


ODD: list[Any] = [None, True, -1, 2**53 - 1, "", "x", "1e400", [], [[]], {}, {"a": 1}]


def test_no_value_of_any_kind_makes_verification_raise(
    receipt_of: Callable[[Campaign, Path], Path], tmp_path: Path
) -> None:
    """Each value of a small receipt replaced by one of another kind and sealed anew: a verdict, never a crash."""
    campaign = campaigns.of_document(
        {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}, "test"
    )
    statement = canonical.decode(receipt_of(campaign, tmp_path).read_bytes())
    crashes = []

    def attempt(name: str, seal: bool) -> None:
        forged = copy.deepcopy(statement)
        try:
            if seal:
                reseal_plan(forged)
            sealed(forged, ROOT)
        except Exception as error:
            crashes.append(f"{name}: {type(error).__name__}: {error}")

    def visit(place: Any, keys: list[Any], path: str) -> None:
        for key in keys:
            name, old = f"{path}.{key}", place[key]
            for odd in ODD:
                place[key] = odd
                attempt(f"{name} = {odd!r}", seal=False)
                if name.startswith("predicate.plan"):
                    attempt(f"{name} = {odd!r}, the plan sealed anew", seal=True)
            place[key] = old
            if isinstance(old, dict):
                visit(old, list(old), name)
            elif isinstance(old, list) and old:
                visit(old, [0], name)

    visit(statement, ["subject"], "statement")
    visit(statement["predicate"], list(statement["predicate"]), "predicate")
    assert crashes == []
