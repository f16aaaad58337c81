"""A replay raises what a receipt assures, and what is no replay of it raises nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from restated import changed

from pp3.harness.campaign import of_document
from pp3.harness.evidence.review import Review
from pp3.harness.evidence.verify import verify
from pp3.harness.seeds import Seed

SMALL = {"targets": ["disjoint", "invalidated"], "requests": 20_000, "paired": 64, "batch_sizes": [1, 3], "depths": [4]}
Statement = dict[str, Any]


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The receipt of a small campaign."""
    return receipt_of(of_document(SMALL, "a test"), tmp_path_factory.mktemp("replay"), 3)


def replayed(path: Path, folder: Path, change: Callable[[Statement], object] = lambda statement: None) -> Path:
    """The receipt as somebody who ran it again would write it, with something changed."""

    def again(statement: Statement) -> None:
        statement["predicate"]["seed"]["chosen"] = "replay"
        change(statement)

    return changed(path, again, folder)


def other_count(statement: Statement) -> None:
    """One event counted as another."""
    counts = statement["predicate"]["cells"][0]["counts"]
    counts[0], counts[1] = counts[0] + 1, counts[1] - 1


def other_counter(statement: Statement) -> None:
    """Another run of the plan."""
    predicate = statement["predicate"]
    predicate["seed"] |= {"counter": 4, "sha256": Seed.of(predicate["planSha256"], 4).value.hex()}


def test_a_replay_raises_the_assurance(old: Path, tmp_path: Path) -> None:
    found = verify(old, old.read_bytes(), review=Review(replay=replayed(old, tmp_path)))
    assert found.ok, found.sentence
    assert "assurance=replayed" in found.sentence
    assert "assurance=self-attested" in verify(old, old.read_bytes()).sentence


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(other_count, "NOT VERIFIED at replay: disjoint/depth-4/proposal/", id="one-count"),
        pytest.param(other_counter, "has another seed", id="another-seed"),
        pytest.param(lambda s: s["predicate"]["seed"].update(chosen="given"), "is a run of its own", id="no-replay"),
    ],
)
def test_what_is_no_replay_raises_nothing(
    change: Callable[[Statement], object], said: str, old: Path, tmp_path: Path
) -> None:
    found = verify(old, old.read_bytes(), review=Review(replay=replayed(old, tmp_path, change)))
    assert not found.ok
    assert said in found.sentence
