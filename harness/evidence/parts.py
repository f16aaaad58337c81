"""What the shapes of receipts are made of. Unknown fields are refused, no count is negative."""

from typing import Annotated, Any, Literal

import msgspec


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of receipt shapes: unknown fields are refused."""


Count = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64)]


class DigestShape(Strict, frozen=True):
    """Digest of one bound file."""

    sha256: Sha256


class SubjectShape(Strict, frozen=True):
    """One bound file."""

    name: str
    digest: DigestShape


class CellShape(Strict, frozen=True):
    """One histogram: a count an atom, then one for all that its law forbids."""

    id: str
    batch: Count
    counts: list[Count]
    first: list[Count] = []  # of the first half of the requests; older receipts have none


class DeviationShape(Strict, frozen=True):
    """A check that failed, between its bounds in total variation."""

    id: str
    worth: Literal["fail", "tolerated", "open"]
    low: str
    high: str


class StrayShape(Strict, frozen=True):
    """An outcome that a cell's law forbids, and how often it was seen."""

    cell: str
    batch: Count
    outcome: Count
    count: Annotated[int, msgspec.Meta(ge=1)]


class SeedShape(Strict, frozen=True):
    """How the run's random numbers were chosen."""

    rule: str
    counter: Count
    chosen: Literal["next", "given", "replay"]
    sha256: Sha256


class SamplerShape(Strict, frozen=True):
    """Who was judged."""

    name: str
    version: str
    backend: Literal["reference", "interpreter", "cuda"]
    min_vocab: Count
    max_vocab: Count


class BitsShape(Strict, frozen=True):
    """Rows of a backend compared with the reference."""

    id: str
    rows: Count
    failed_rows: Count
    mismatches: Count
    first: str


class AnswersShape(Strict, frozen=True):
    """One file of known answers."""

    file: str
    sha256: str
    passed: Count
    total: Count


class KernelsShape(Strict, frozen=True):
    """What was shown of the kernels."""

    bits: list[BitsShape]
    conform: list[AnswersShape]
    identity: dict[str, str]
    missing: str = ""


class PairedShape(Strict, frozen=True):
    """Temperature-0 pairs of one shard."""

    target: str
    depth: Count
    pairs: Count
    mismatches: Count
    first: dict[str, Any]


class TimingShape(Strict, frozen=True):
    """What was timed, in the order measured."""

    id: str
    unit: Literal["ns"]
    samples: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]


class ContestantShape(Strict, frozen=True):
    """One contestant of a probe's case: nanoseconds of so many rounds, in the order measured."""

    id: str
    launches: Count
    method: Literal["graph", "events"]
    rounds: Annotated[int, msgspec.Meta(ge=1)]
    samples: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]


class ProbedShape(Strict, frozen=True):
    """One case of a probe."""

    id: str
    timings: list[ContestantShape]


class FigureShape(Strict, frozen=True):
    """What follows of one contestant: quantiles of its samples, and its median round over the floor's and over ours."""

    id: str
    p05: Count
    median: Count
    p95: Count
    over_floor: str
    over_ours: str


class FiguresShape(Strict, frozen=True):
    """What follows of one case."""

    id: str
    bytes_moved: Count
    memory_ns: str
    lines: list[FigureShape]


class BandwidthShape(Strict, frozen=True):
    """Bytes moved a sample, and nanoseconds of each."""

    how: str
    bytes: Annotated[int, msgspec.Meta(ge=1)]
    samples: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]


class PathShape(Strict, frozen=True):
    """What became of the requests that went over a path: those that were to be lost, by how, and those that were."""

    frames: Count
    rows: Count
    sampled: Count  # of them at a temperature above 0
    injected: dict[str, Count]
    counted: dict[str, Count]
    altered: Count  # that arrived as others than were sent
    proxies: Count  # that were begun


class ExecutionShape(Strict, frozen=True):
    """How a campaign in pieces was run."""

    attempts: Annotated[int, msgspec.Meta(ge=1)]  # starts, of all its shards
    devices: dict[str, Count]  # pieces by the device that ran them
    pieces: Annotated[int, msgspec.Meta(ge=1)]
    repeated: Count  # pieces that were run more than once, with equal results
    unequal: list[str]  # pieces that came to other counts when they were run again


class EnumerationShape(Strict, frozen=True):
    """What one enumeration observed."""

    id: str
    claim: str
    compared: Count
    values: dict[str, list[int] | str]


class PolicyShape(Strict, frozen=True):
    """Tables of one policy as a device emitted them, and what follows from them."""

    survey: dict[str, Any]
    distances: list[dict[str, Any]]


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
    first: list[Count] = []  # likewise


class TrialStrayShape(Strict, frozen=True):
    """An outcome that a cell's law forbids, and how often it was seen."""

    cell: str
    outcome: Count
    count: Annotated[int, msgspec.Meta(ge=1)]


class EngineSamplerShape(Strict, frozen=True):
    """Which engine was judged, as the plan declares it."""

    name: str
    version: str
    device: dict[str, str]


class EngineCellShape(Strict, frozen=True):
    """One histogram: a count a group, then one for strata that decide nothing, then one for what its law forbids."""

    id: str
    counts: list[Count]


class ReplacedShape(Strict, frozen=True):
    """Attempts at a request that another one replaced: the answer did not come whole, or was not begun."""

    lost: Count
    refused: Count


class ExactShape(Strict, frozen=True):
    """What was compared without any level."""

    id: str
    compared: Count
    wrong: Count


class CalibratedKindShape(Strict, frozen=True):
    """P-values of one kind of check: how many, how many are at most so small, and bins of their transforms."""

    id: str
    tried: Count
    below: list[Count]
    pit: list[Count]


class CalibratedShape(Strict, frozen=True):
    """Null campaigns of one level."""

    level: Literal["counts", "requests"]
    campaigns: Count
    distinct: Count  # that differ in their counts
    rejected: list[Count]  # at each alpha
    family: list[Count]  # bins of the smallest p-value over its share
    kinds: list[CalibratedKindShape]


class TailShape(Strict, frozen=True):
    """The chance that a check rejects a null at its level, far beyond what campaigns can count."""

    level: Literal["counts", "requests"]
    id: str
    alpha: str
    chance: str
    error: str
    exact: str
    how: Literal["bounded", "enumerated", "tilted", "weighted"]


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
