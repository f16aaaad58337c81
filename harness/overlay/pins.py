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
SEMANTIC = "pp3/draft-probabilities-fp32-v1"  # of what `draft_logits` carries: the sampler marker's value
VOID = "pp3/failed-drafts-void-v1"  # the runner marker's
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
            result="e42c49e9c3e44f53ad7fd84dcfeeebcd6ba1ff2deb3f098ef8441375ca29d057",
        ),
        RUNNER: Edited(
            source="030db5bfca162cc1f305112f299de5d6d61c59d3ed0807fee46575441ca4086d",
            result="42a3bdb10ceca94bf377adcf5aa446bb91caba6a0b68c49d289f2e62c5b70e95",
        ),
    },
    "0.33.0": {
        SAMPLER: Edited(
            source="a4167068d1d10a36c130e2924b12cbf01f99c968f2fcf47e75a1129d3d8022c8",
            result="8852c6745e82d353d47b8a77cedbe08b1976f95d31746dcb1f22194916c9d3e7",
        ),
        RUNNER: Edited(
            source="0cbfc55f4d98ffa740ca9e1b4092c16eb635192c8ee86a15b88e3c21215d5920",
            result="cb0e3982aae6874de2335eadb1673e56437395ff8ea9ec1ff1583b2f2e23d9d7",
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
