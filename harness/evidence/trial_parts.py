"""What the shapes of receipts of other samplers are made of: a trial, of an image or of overlays too, and a survey."""

from typing import Annotated, Literal

import msgspec

from pp3.harness.evidence.parts import Count, PairedShape, PathShape, Sha256, Strict


class ImageFileShape(Strict, frozen=True):
    """One file of vLLM, by its name in the wheel and the bytes that were run."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$")]
    sha256: Sha256


class ImageShape(Strict, frozen=True):
    """How the files of a vLLM image were loaded: harness/image/load.Loaded."""

    version: str
    part: Literal["v2", "classic", "topk-topp"]
    files: list[ImageFileShape]
    shims: list[str]
    log1p: Literal["libdevice", "numpy"]
    mended: list[str]
    forbidden: list[str]


class EditShape(Strict, frozen=True):
    """One edit of an overlay, and the function that it touches."""

    name: str
    function: str


class OverlayFileShape(Strict, frozen=True):
    """One file of an overlay, before and after its edits."""

    name: str
    source_sha256: Sha256
    sha256: Sha256
    edits: list[EditShape]


class AttestationShape(Strict, frozen=True):
    """What `pp3 prepare` wrote: attestation.json."""

    vllm: str
    status: str
    tool: dict[str, str]
    markers: dict[str, str]
    files: list[OverlayFileShape]


class OverlayShape(Strict, frozen=True):
    """The overlays that were tried: what they are, what a proposal went through, and the pairs against the image."""

    attestation: AttestationShape
    path: str
    paired: list[PairedShape]
    journey: PathShape


class TrialSamplerShape(Strict, frozen=True):
    """Who was tried: what it says of itself, and what the harness found it to be made of."""

    name: str
    version: str
    module: str
    device: dict[str, str]
    files: list[tuple[str, Sha256]]
    packages: dict[str, str]
    image: ImageShape | None = None  # receipts before it was recorded lack it


class TrialCellShape(Strict, frozen=True):
    """One histogram: a count an atom, then one for all that its law forbids."""

    id: str
    counts: list[Count]
    first: list[Count] = msgspec.field(default_factory=list)  # of the first half; older receipts have none


class TrialStrayShape(Strict, frozen=True):
    """An outcome that a cell's law forbids, and how often it was seen."""

    cell: str
    outcome: Count
    count: Annotated[int, msgspec.Meta(ge=1)]


class SurveyRowShape(Strict, frozen=True):
    """One sampler of a survey, as its own receipt says."""

    about: str
    name: str
    profile: str
    reasons: list[str]
    receipt: str
    requests: Count
    resolution: str
    sentence: str
    verdict: str
    version: str
