"""The filtered control: it passes by the rules it declares, and by no other."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from pp3 import qualify
from pp3.harness.filters import Hit, Order, Ties
from pp3.harness.samplers.contract import Batch, Carrier, Description
from pp3.harness.samplers.torch_filters import Filters, of_probs
from pp3.harness.verdict import Verdict

REQUESTS = 2_000  # of each law


class Declared(Filters):
    """The control under another declaration."""

    def __init__(self, carrier: Carrier, **declared: Any) -> None:
        super().__init__(carrier)
        self.declared = declared

    def describe(self) -> Description:
        return replace(super().describe(), **self.declared)


class Neighbour(Filters):
    """Every row is filtered with the settings of the row after it."""

    def run(self, batch: Batch) -> torch.Tensor:
        return super().run(Shifted(batch))  # type: ignore[arg-type]  # it stands in for a batch


class Shifted:
    """A batch whose settings are off by one row."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.batch, name)
        return found.roll(1, 0) if name in ("temperature", "top_k", "top_p", "min_p") and found is not None else found


@pytest.mark.parametrize("target", ["rows-of-8", "rows-of-10", "rows-of-24"])
@pytest.mark.parametrize("sampler", [Filters(), of_probs()], ids=lambda sampler: str(sampler.carrier))
def test_the_control_passes(sampler: Filters, target: str) -> None:
    report = qualify(sampler, targets=[target], requests=REQUESTS, device="cpu")
    assert report.verdict is Verdict.PASS, str(report)


@pytest.mark.parametrize(
    ("target", "carrier", "declared"),
    [
        pytest.param("rows-of-6", Carrier.PROBS, {"top_p_hit": Hit.GOES_ON}, id="a hit that goes on"),
        pytest.param("rows-of-4", Carrier.LOGITS, {"order": Order.JOINT}, id="top-k and top-p at once"),
        pytest.param("rows-of-12", Carrier.LOGITS, {"order": Order.TEMPERATURE_LAST}, id="temperature last"),
        pytest.param("rows-of-10", Carrier.LOGITS, {"ties": Ties.ALL_KEPT}, id="ties of top-k kept"),
        pytest.param("rows-of-10", Carrier.LOGITS, {"top_p_ties": Ties.ALL_KEPT}, id="ties of top-p kept"),
    ],
)
def test_another_declaration_fails(target: str, carrier: Carrier, declared: dict[str, Any]) -> None:
    report = qualify(Declared(carrier, **declared), targets=[target], requests=REQUESTS, device="cpu")
    assert report.verdict is Verdict.FAIL, str(report)


def test_settings_of_another_row_fail() -> None:
    report = qualify(Neighbour(), targets=["rows-of-12"], requests=REQUESTS, device="cpu")
    assert report.verdict is Verdict.FAIL, str(report)
