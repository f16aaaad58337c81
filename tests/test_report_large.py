"""Pages of large receipts stay small and readable: they pool, sort and say so. Counts are drawn from the laws."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pp3.harness.campaign import Campaign, load, plan_sha256
from pp3.harness.cells import Cell
from pp3.harness.evidence import kernels, receipt
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.report.render import page
from pp3.harness.run import Measured
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.samplers.torch_stateful import Stateful
from pp3.harness.seeds import Seed
from pp3.harness.trial.measured import Measured as Tried
from pp3.harness.trial.order import Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.verdict import all_cells, conclude

MODEL = 163_840  # tokens of a large model's vocabulary
LISTED = 120_000  # of them that the target can emit
BYTES = 3_000_000
Draw = Callable[[Cell, int], tuple[list[int], list[int]]]


def drawn(rng: np.random.Generator, change: Callable[[Cell], npt.NDArray[np.float64]] = Cell.probabilities) -> Draw:
    """Counts of a cell from its law, or a changed one, of all requests and of the first half of them."""

    def draw(cell: Cell, events: int) -> tuple[list[int], list[int]]:
        first, second = (rng.multinomial(part, change(cell)) for part in (events // 2, events - events // 2))
        return [*(first + second).tolist(), 0], [*first.tolist(), 0]

    return draw


def of_campaign(campaign: Campaign, draw: Draw) -> dict[str, Any]:
    """The statement of a campaign whose counts are drawn: none that verifies, all that is rendered."""
    who = ReferenceSampler().describe()
    measured = Measured(sampler=who)
    for cell in all_cells(campaign):
        for batch in campaign.spec.batch_sizes:
            events = round(campaign.requests_of(cell.depth, batch) * float(cell.rate))
            measured.counts[cell.id, batch], measured.first[cell.id, batch] = draw(cell, events)
    measured.kernels = {
        "bits": [
            {"failedRows": 0, "first": "", "id": name, "mismatches": 0, "rows": rows}
            for name, rows in kernels.expected_bits(campaign, False)
        ],
        "conform": [],
        "identity": {"backend": "interpreter"},
    }
    told = {"name": who.name, "version": who.version, "backend": who.backend}
    judgement = conclude(
        campaign, measured.counts, measured.first, measured.breaches, measured.pairs, measured.kernels, told
    )
    seed = Seed.of(plan_sha256(campaign), 1)
    return receipt.build(campaign, seed, 1, "given", datetime.now(UTC), measured, judgement)


def wide(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """A target of a large vocabulary in a campaign file: most of its tokens are rare, and in no order."""
    ids = rng.permutation(MODEL)[:LISTED]
    weights = np.maximum(1, (5e5 / np.arange(1, LISTED + 1) ** 0.9).astype(int))
    weights[0] += (1 << 24) - int(weights.sum())
    assert weights[0] > 0
    draft = [float(k) / 4 for k in range(40)]
    row = {"ids": ids.tolist(), "weights": weights.tolist(), "draft_ids": ids[:40].tolist(), "draft_logits": draft}
    return {"name": name, "vocab": MODEL, "rows": [row]}


def test_a_target_of_a_large_vocabulary(rng: np.random.Generator) -> None:
    """Rare tokens are pooled before the run; columns, and rows of the tables, are pooled and cut, and it is said."""
    definition = wide("model", rng)
    campaign = load(
        None, {"targets": ["model"], "target": [definition], "requests": 2_000_000, "depths": [4], "batch_sizes": [4]}
    )
    statement = of_campaign(campaign, drawn(rng))
    text = page(b"", statement)
    assert len(text.encode()) < BYTES
    assert "(vocabulary 163,840)" in text
    said = re.findall(r"Up to ([\d,]+) groups are drawn as 96 columns of neighbours", text)
    assert said
    assert int(said[0].replace(",", "")) > 1_000
    assert "The table has the 16 largest residuals of each place." in text


def test_a_campaign_of_many_targets(rng: np.random.Generator) -> None:
    """Those nearest to their levels are drawn; the others are named, and their checks are in the table."""
    row = {"ids": [1, 5, 9], "weights": [1 << 22, 1 << 22, 1 << 23], "draft_ids": list(range(40))}
    many = [
        {"name": f"t{k}", "vocab": 64, "rows": [row | {"draft_logits": [float(j % (k + 2)) for j in range(40)]}]}
        for k in range(25)
    ]
    names = [one["name"] for one in many]
    statement = of_campaign(load(None, {"targets": names, "target": many, "requests": 4_000}), drawn(rng))
    text = page(b"", statement)
    assert len(statement["predicate"]["tests"]) > 1_000
    assert len(text.encode()) < BYTES
    assert "Drawn: the 8 targets nearest to their levels." in text
    assert text.count("<svg") == 2 * 8 + 3
    left = unescape(re.search(r"their checks are in the table below: <bdi>(.*?)</bdi>", text)[1]).split(", ")  # type: ignore[index]  # no match fails here too
    assert len(left) == 25 - 8
    assert set(left) < set(names)


def test_a_failure_at_one_position_is_found_by_its_token(rng: np.random.Generator) -> None:
    """The failures say the target, the position, the token and the size, before any picture."""
    campaign = load(None, {"targets": ["disjoint", "equal-q"], "requests": 40_000})

    def change(cell: Cell) -> npt.NDArray[np.float64]:
        law = cell.probabilities()
        if cell.target == "equal-q" and cell.event.value == "token" and cell.position == 2:
            law = 0.9 * law
            law[len(law) // 2] += 0.1
        return law

    statement = of_campaign(campaign, drawn(rng, change))
    assert statement["predicate"]["verdict"] == "FAIL"
    text = page(b"", statement)
    table = text[text.index('aria-label="Failed checks"') : text.index("<svg")]
    first = unescape(re.sub(r"<[^>]*>", " ", re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1]))
    cell = next(cell for cell in all_cells(campaign) if cell.id.startswith("equal-q/depth-4/token/position-2"))
    assert "equal-q" in first
    assert "tokens emitted at position 2" in first
    assert f"token {int(cell.atoms[len(cell.atoms) // 2])}" in first
    size = float(re.search(r"\s0\.\d+\s+0\.\d+\s+(0\.\d+)\s", first)[1])  # type: ignore[index]  # no match fails here too
    assert 0.05 < size < 0.15


@pytest.fixture(scope="module")
def tried() -> dict[str, Any]:
    """The statement of a trial of every target of a pipeline, its counts drawn from the laws."""
    trial = make(TrialSpec(sampler="stateful"), Stateful().describe(), "test")
    draw = drawn(np.random.default_rng(7))
    measured = Tried()
    for problem in trial.problems:
        for cell in problem.cells:
            events = round(trial.requests_of(problem) * float(cell.rate))
            measured.counts[cell.id], measured.first[cell.id] = draw(cell, events)
    found = Found(trial=trial, device={"backend": "cpu"}, measured=measured, sources=Sources([["a.py", "0" * 64]], {}))
    return trial_receipt.build(found, 1, "given", datetime.now(UTC), trial_receipt.judge(found))


def test_a_trial_of_hundreds_of_cells(tried: dict[str, Any]) -> None:
    """Six targets are drawn, the nearest to their levels first, and it is said of how many; every check is there."""
    predicate = tried["predicate"]
    assert len(predicate["cells"]) > 700
    text = page(b"", tried)
    assert len(text.encode()) < BYTES
    targets = len(predicate["plan"]["targets"])
    assert f"Drawn: the 6 of {targets} targets whose checks come nearest" in text
    table = text[text.index("checks: failed first, then the nearest to their levels") :]
    for test in predicate["tests"]:
        assert f"<td>{test['id']}</td>" in table


def test_a_tolerated_deviation_is_no_failure_on_the_page(rng: np.random.Generator) -> None:
    """It is listed with its bounds, in the tone of what passes, and says that it is within the tolerance."""
    campaign = load(None, {"targets": ["disjoint"], "requests": 400_000, "depths": [4], "tolerance": 0.2})

    def change(cell: Cell) -> npt.NDArray[np.float64]:
        law = cell.probabilities()
        if cell.event.value == "token" and cell.position == 0:
            law = 0.95 * law
            law[0] += 0.05
        return law

    statement = of_campaign(campaign, drawn(rng, change))
    text = page(b"", statement)
    table = text[text.index('aria-label="Failed checks"') : text.index("<svg")]
    row = next(line for line in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL) if "disjoint/depth-4/token" in line)
    assert '<td class="pass">✓' in row
    assert "within the tolerance declared" in row
