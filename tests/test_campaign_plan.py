"""What a campaign file comes to: its promise, its plan, its digest, and how requests are shared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from campaign_files import OTHER, ROW, load, own, row

from pp3.harness import campaign as campaigns
from pp3.harness import canonical
from pp3.harness.campaign import Campaign
from pp3.harness.evidence.verify import verify

GOOD = {
    "one row for all positions": own(),
    "a row a position": own(", ".join([ROW, OTHER] * 3)),
    "rows by context": own(f"{ROW}, {OTHER}", contexts="[" + "0, 1, " * 32 + "]"),
    "every pattern": own(patterns='["none", "first", "middle", "last", "every"]'),
    "a law with one outcome": own(row(ids="[9]", weights="[16777216]")),
    "the smallest vocabulary": own(vocab="32"),
    "beside one of ours": own().replace('["mine"]', '["mine", "disjoint"]'),
}
PROMISES: dict[str, tuple[str, float, float]] = {
    "none": ("", 0.0, 0.999),
    "a number": ("detect = 0.1", 0.1, 0.999),
    "a table": ("[detect]\ntv = 0.1", 0.1, 0.999),
    "a table with its power": ("[detect]\ntv = 0.1\npower = 0.9", 0.1, 0.9),
    "a table and power by itself": ("power = 0.9\n[detect]\ntv = 0.1", 0.1, 0.9),
    "a whole number": ("[detect]\ntv = 0", 0.0, 0.999),
}


@pytest.mark.parametrize(("text", "detect", "power"), PROMISES.values(), ids=PROMISES)
def test_what_is_promised(text: str, detect: float, power: float, tmp_path: Path) -> None:
    """A table [detect] and a number say the same."""
    spec = load(text, tmp_path).spec
    assert (spec.detect, spec.power) == (detect, power)


def test_the_option_takes_the_place_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text("[detect]\ntv = 0.1\npower = 0.9")
    spec = campaigns.load(path, {"detect": 0.2}).spec
    assert (spec.detect, spec.power) == (0.2, 0.9)


def test_the_default_campaign() -> None:
    """What the customer asked for."""
    spec = campaigns.load(None).spec
    assert spec.targets == ["sparse-tail", "disjoint", "equal-q", "invalidated", "context"]
    assert (spec.requests, spec.paired) == (20_000, 100_000)
    assert (spec.batch_sizes, spec.depths) == ([1, 2, 3, 4], [4, 5])
    assert (spec.alpha, spec.pool) == (1e-5, 100)
    assert (spec.detect, spec.tolerance, spec.weights) == (0.0, 0.0, {})
    assert campaigns.load(None, {"requests": 77}).spec.requests == 77


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_plan_rebuilds_its_campaign(text: str, tmp_path: Path) -> None:
    """By way of a receipt's bytes, to the same digest and the same laws."""
    campaign = load(text, tmp_path)
    plan = canonical.decode(canonical.encode(campaign.plan))
    again = campaigns.of_plan(plan)
    assert campaigns.plan_sha256(again) == campaigns.plan_sha256(campaign) == canonical.sha256(plan)
    assert [target.digest() for target in again.targets] == [target.digest() for target in campaign.targets]


def test_the_default_plan_rebuilds_its_campaign() -> None:
    """Ours are rebuilt from their names alone."""
    campaign = campaigns.load(None)
    assert all(set(target) == {"name", "lawSha256"} for target in campaign.plan["targets"])
    assert campaigns.plan_sha256(campaigns.of_plan(campaign.plan)) == campaigns.plan_sha256(campaign)


CHANGED: dict[str, Any] = {
    "name": "another",
    "targets": ["disjoint"],
    "requests": 20_001,
    "paired": 99_999,
    "batch_sizes": [1, 2, 3],
    "depths": [5, 4],
    "alpha": 2e-5,
    "pool": 101,
    "power": 0.99,
    "detect": 0.1,
    "tolerance": 0.01,
    "weights": {"law": 0.5, "conditional": 0.5},
    "battery": 1,
}


@pytest.mark.parametrize(("key", "value"), CHANGED.items(), ids=CHANGED)
def test_every_key_is_in_the_digest(key: str, value: Any) -> None:
    """The seed follows from the plan, so nothing of it may be chosen afterwards."""
    changed = campaigns.of_document({key: value}, "test")
    assert campaigns.plan_sha256(changed) != campaigns.plan_sha256(campaigns.load(None))


def test_the_table_above_has_every_key() -> None:
    """`target` is covered by the plans of GOOD, which hold their definitions."""
    assert {field.name for field in msgspec.structs.fields(campaigns.CampaignSpec)} == {*CHANGED, "target"}


@pytest.mark.parametrize(
    ("requests", "shares"),
    [(12, [2] * 6), (10, [2, 2, 2, 2, 1, 1]), (7, [2, 1, 1, 1, 1, 1]), (1, [1, 0, 0, 0, 0, 0])],
    ids=["equal", "four left", "one left", "fewer than cells"],
)
def test_requests_are_shared_equally_and_the_first_take_the_remainder(requests: int, shares: list[int]) -> None:
    """Over depths, then batch sizes, in the order of the plan."""
    campaign = campaigns.of_document({"requests": requests, "depths": [4, 5], "batch_sizes": [1, 2, 4]}, "test")
    assert [campaign.requests_of(depth, size) for depth in (4, 5) for size in (1, 2, 4)] == shares


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_target_of_a_file_is_judged_and_verified(
    text: str, receipt_of: Callable[[Campaign, Path], Path], tmp_path: Path
) -> None:
    """From TOML to a receipt that verifies, with every request counted and nothing impossible."""
    path = receipt_of(load(text, tmp_path), tmp_path)
    predicate = canonical.decode(path.read_bytes())["predicate"]
    assert verify(path, path.read_bytes()).ok
    assert predicate["verdict"] in ("PASS", "INCONCLUSIVE"), predicate["reasons"]
    assert not any(predicate["breaches"].values())
    lengths = [cell for cell in predicate["cells"] if "/mine/" in f"/{cell['id']}" and "/length/" in cell["id"]]
    assert sum(sum(cell["counts"]) for cell in lengths) == 2_000


@pytest.mark.parametrize(("requests", "paired"), [(1, 0), (1, 1), (7, 3)], ids=["one", "one pair", "fewer than cells"])
def test_the_smallest_campaigns_are_inconclusive_and_verify(
    requests: int, paired: int, receipt_of: Callable[[Campaign, Path], Path], tmp_path: Path
) -> None:
    """Too few events decide nothing, and are said so."""
    path = receipt_of(
        campaigns.of_document({"requests": requests, "paired": paired, "targets": ["invalidated"]}, "test"), tmp_path
    )
    assert canonical.decode(path.read_bytes())["predicate"]["verdict"] == "INCONCLUSIVE"
    assert verify(path, path.read_bytes()).ok
