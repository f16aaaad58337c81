"""`pp3 qualify --path wire` from its command line to its receipt: both proxies, losses on the way, pairs."""

import json
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit

CAMPAIGN = """
name = "small-wire"
targets = ["disjoint", "equal-q"]
requests = 400
paired = 40
batch_sizes = [4]
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What a campaign came to through a thread and through a process, by the same counter; both receipts verify."""
    found = {}
    for proxy in ("thread", "process"):
        folder = tmp_path_factory.mktemp(proxy)
        (folder / "small.toml").write_text(CAMPAIGN)
        asked = ["qualify", "--path", "wire", "--proxy", proxy, "--device", "cpu", "--counter", "3"]
        code = cli.run([*asked, "--campaign", str(folder / "small.toml"), "--out", str(folder / "out")])
        assert code == Exit.INCONCLUSIVE  # with so few
        (receipt,) = (folder / "out").glob("*.json")
        assert receipt.with_suffix(".html").is_file()
        assert cli.run(["verify", str(receipt)]) == Exit.OK
        found[proxy] = json.loads(receipt.read_bytes())["predicate"]
    return found


def test_what_was_lost_is_what_was_to_be_lost(judged: dict[str, dict[str, Any]]) -> None:
    """And something was: the sentence counts it, and says through what the proposals went."""
    for proxy, predicate in judged.items():
        assert predicate["kind"] == "wire"
        assert predicate["plan"]["path"]["proxy"] == proxy
        assert f"over the wire through a proxy in a {proxy}" in predicate["sentence"]
        assert "that were to be lost were lost, no other" in predicate["sentence"]
        assert sum(sum(row["counts"]) for row in predicate["cells"] if "/length/" in row["id"]) == 800


def test_pairs_at_temperature_0_differ_in_none(judged: dict[str, dict[str, Any]]) -> None:
    for predicate in judged.values():
        pairs = predicate["paired"]
        assert pairs
        assert not any(row["mismatches"] for row in pairs)
