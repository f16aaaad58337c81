"""Overlays of the real files as samplers, right ones and wrong ones."""

from dataclasses import replace
from functools import cache as once
from pathlib import Path
from typing import Any

import pytest
import torch

from pp3.harness.image import cache
from pp3.harness.overlay import prepare, sources
from pp3.harness.overlay.load import Opened, open_overlay
from pp3.harness.overlay.pipeline import Overlay
from pp3.harness.samplers.contract import Batch, Emission


def image_of(version: str) -> Path:
    """From the cache, or a named skip."""
    home = cache.default_folder()
    if home is None or not sources.beside(home / version).is_dir():
        pytest.skip(f"no image of vllm {version} with its runner here: make image VERSION={version}")
    pytest.importorskip("libcst", reason="LibCST is the extra `image`")
    return home / version


@once
def opened_in(folder: Path, version: str) -> Opened:
    """One load of each version for all tests."""
    if not (folder / version).exists():
        prepare.prepare(image_of(version), folder / version)
    return open_overlay(image_of(version), folder / version)


class Forgetful(Overlay):
    """The runner is never told which proposals were lost. Their q is zero, so that the sampler keeps no draft."""

    def _verify(self, batch: Batch, slots: Any, logits: Any, carrier: Any, told: Any) -> Any:
        carrier.pp3_failed = torch.zeros_like(carrier.pp3_failed)
        return super()._verify(batch, slots, logits, carrier, told)


class Mended(Overlay):
    """A failed proposal is repaired on its way."""

    def __init__(self, opened: Opened, device: str) -> None:
        super().__init__(opened, device, lambda landed: replace(landed, status=landed.status * 0))


class Halved(Overlay):
    """Half of q reaches the verifier."""

    def _verify(self, batch: Batch, slots: Any, logits: Any, carrier: Any, told: Any) -> Any:
        half = carrier / 2
        half.pp3_semantic, half.pp3_failed = carrier.pp3_semantic, carrier.pp3_failed
        return super()._verify(batch, slots, logits, half, told)


class Swapped(Overlay):
    """Each slot's q is another's."""

    def _verify(self, batch: Batch, slots: Any, logits: Any, carrier: Any, told: Any) -> Any:
        other = carrier.roll(1, 1)
        other.pp3_semantic, other.pp3_failed = carrier.pp3_semantic, carrier.pp3_failed
        return super()._verify(batch, slots, logits, other, told)


class Off(Overlay):
    """Every temperature-0 length of the mixed launch is one more."""

    def _launch(self, batch: Batch) -> Emission:
        found = super()._launch(batch)
        if not batch.carrier or batch.sampled.all():
            return found
        return replace(found, num_sampled=found.num_sampled + 1)
