"""Which files the overlays edit: by version, the SHA-256 of each before the edits and after them.

What an edited file must hash to was reviewed with docs/overlays.md; another edit needs another review.
"""

from dataclasses import dataclass

from pp3.harness.image.pins import VERIFIER, public
from pp3.harness.overlay.refusal import OverlayError, Reason

SAMPLER = VERIFIER
RUNNER = "vllm/v1/worker/gpu/spec_decode/rejection_sampler.py"
SAMPLER_MARKER = "PP3_SAMPLER_OVERLAY"
RUNNER_MARKER = "PP3_RUNNER_OVERLAY"
SEMANTIC = "pp3-sampler-overlay/dyadic24-floor-first-v1"  # of what `draft_logits` carries: the sampler marker's value
VOID = "pp3-runner-overlay/dyadic24-floor-first-v1"  # the runner marker's
MARKERS = {SAMPLER_MARKER: SEMANTIC, RUNNER_MARKER: VOID}


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """One file's SHA-256 before and after its edits."""

    source: str
    result: str


OVERLAYS = {
    "0.30.0": {
        SAMPLER: Edited(
            source="214b61fa0abe88573beb779872c035b3954e5651a85bd438d99ee5905d3a62ec",
            result="b57e8f15537571d9f28140edd87b479965f752257fc581b6c4df9fd54e3eef6a",
        ),
        RUNNER: Edited(
            source="030db5bfca162cc1f305112f299de5d6d61c59d3ed0807fee46575441ca4086d",
            result="173d69b8edf06a6abb33452500c1d53691eabd0da72d7bb3a41a89c8727996f3",
        ),
    },
    "0.33.0": {
        SAMPLER: Edited(
            source="a4167068d1d10a36c130e2924b12cbf01f99c968f2fcf47e75a1129d3d8022c8",
            result="dc2a4109993c1ae19925596c5ff9e8bc31ac8fa7b694c39ef09f8e2e0dd00390",
        ),
        RUNNER: Edited(
            source="0cbfc55f4d98ffa740ca9e1b4092c16eb635192c8ee86a15b88e3c21215d5920",
            result="ff50b24fbbf4feaa112f462fdec82d9c36dc45179600d5b925949cac22ca9fc3",
        ),
    },
}


def overlay_of(version: str) -> dict[str, Edited]:
    """The two files of a version. OverlayError if no edits are written for it."""
    found = OVERLAYS.get(public(version))
    if found is None:
        raise OverlayError(
            Reason.VERSION, f"vllm {version} has no edits written for it: prepare one of {', '.join(OVERLAYS)}"
        )
    return found
