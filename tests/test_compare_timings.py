"""Timings of two receipts: ratios with intervals, of one machine and of the same things alone."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from two_receipts import compared, resealed, small

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.regression import timings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where receipts are written."""
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def old(receipt_of: Callable[..., Path], folder: Path) -> Path:
    """A receipt of counter 1."""
    return receipt_of(small(), folder / "old", 1)


@pytest.mark.parametrize(("factor", "mark"), [(0.5, "faster"), (1.0, "~"), (2.0, "slower")])
def test_timings_are_ratios_with_intervals(factor: float, mark: str, rng: np.random.Generator) -> None:
    old = rng.integers(90, 110, 101)
    new = (rng.integers(90, 110, 101) * factor).astype(int)
    rows = [[{"id": "round", "unit": "ns", "samples": samples.tolist()}] for samples in (old, new)]
    [found] = timings.ratios(*rows)
    assert found.mark == mark
    assert found.low <= found.ratio <= found.high
    assert found.ratio == pytest.approx(np.median(new) / np.median(old))
    assert timings.ratios(rows[0], [{"id": "other", "unit": "ns", "samples": [1] * 99}]) == []


MADE_ON: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "one GPU": ({"gpu": "H200"}, {"gpu": "H200"}, ""),
    "two GPUs": (
        {"gpu": "H200"},
        {"gpu": "A100"},
        "timings of H200 there, of A100 here: no ratio says which is faster",
    ),
    "a GPU and none": ({"gpu": "H200"}, {"processor": "Xeon"}, "timings of H200 there, of Xeon here"),
    "one processor": ({"processor": "Xeon"}, {"processor": "Xeon"}, ""),
    "two processors": ({"processor": "Xeon"}, {"processor": "EPYC"}, "timings of Xeon there, of EPYC here"),
}


@pytest.mark.parametrize(("there", "here", "why"), MADE_ON.values(), ids=MADE_ON)
def test_timings_of_different_machines_are_refused(
    there: dict[str, str], here: dict[str, str], why: str, old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command, of receipts that verify; nothing else of the comparison changes."""

    def made_on(named: dict[str, str], where: str) -> Path:
        identity = {"backend": "interpreter"} | named
        return resealed(old, lambda s: s["predicate"]["kernels"].update(identity=identity), tmp_path / where)

    pair = made_on(there, "there"), made_on(here, "here")
    assert cli.run(["compare", *map(str, pair), "--json"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert said["comparable"]["timing"] == (why == "")
    assert said["comparable"]["timingReason"].startswith(why)
    ids = [row["id"] for row in canonical.decode(old.read_bytes())["predicate"]["timings"]]
    assert [row["id"] for row in said["timings"]] == ([] if why else ids)
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in said["timings"])
    assert said["conclusion"] == "no-regression"


def test_timings_of_different_things_are_refused(old: Path, tmp_path: Path) -> None:
    """As those of launches and those of a campaign's pieces; one that both hold is compared."""
    piece = {"id": "disjoint/depth-4/piece-of-64-pairs", "samples": [5] * 9, "unit": "ns"}
    [first, *_] = canonical.decode(old.read_bytes())["predicate"]["timings"]
    pieces = resealed(old, lambda s: s["predicate"].update(timings=[piece]), tmp_path / "pieces")
    found = compared(old, pieces)
    assert (found.exit, found.timings) == (Exit.OK, [])
    assert found.not_timing == f"nothing was timed in both: {first['id']} there, {piece['id']} here"
    both = resealed(old, lambda s: s["predicate"].update(timings=[piece, first]), tmp_path / "both")
    assert [row.id for row in compared(both, pieces).timings] == [piece["id"]]
    assert [row.id for row in compared(old, both).timings] == [first["id"]]


@pytest.mark.parametrize("without", ["OLD", "NEW", "both"])
def test_a_receipt_without_timings_is_compared_without(without: str, old: Path, tmp_path: Path) -> None:
    """Those written before they were taken."""
    older = resealed(old, lambda s: s["predicate"].pop("timings"), tmp_path)
    pair = {"OLD": (older, old), "NEW": (old, older), "both": (older, older)}[without]
    found = compared(*pair)
    assert (found.exit, found.timings) == (Exit.OK, [])
    assert found.not_timing == ("neither receipt holds timings" if without == "both" else f"{without} holds no timings")
