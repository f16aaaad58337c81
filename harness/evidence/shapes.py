"""The shapes of receipts: what each kind holds, field by field. Unknown fields are refused, no count is negative."""

import re
from typing import Annotated, Any, Literal

import msgspec

from pp3.harness.errors import ReceiptError

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:pp3:receipt:v1"
MAJOR = re.compile(r"urn:pp3:receipt:v(\d+)")


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


class PredicateShape(Strict, frozen=True):
    """What a receipt of any kind claims."""

    profile: str
    assurance: Literal["self-attested"]
    tool: dict[str, str]
    run: dict[str, str]
    sampler: SamplerShape
    environment: dict[str, Any]
    kernels: KernelsShape
    verdict: str
    reasons: list[str]
    sentence: str
    non_claims: list[str]


class TimingShape(Strict, frozen=True):
    """What was timed, in the order measured."""

    id: str
    unit: Literal["ns"]
    samples: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=1)]


class ExecutionShape(Strict, frozen=True):
    """How a campaign in pieces was run."""

    attempts: Annotated[int, msgspec.Meta(ge=1)]  # starts, of all its shards
    devices: dict[str, Count]  # pieces by the device that ran them
    pieces: Annotated[int, msgspec.Meta(ge=1)]
    repeated: Count  # pieces that were run more than once, with equal results
    unequal: list[str]  # pieces that came to other counts when they were run again


class QualifyShape(PredicateShape, frozen=True):
    """A campaign."""

    kind: Literal["qualify"]
    plan: dict[str, Any]
    plan_sha256: Sha256
    seed: SeedShape
    cells: list[CellShape]
    strays: list[StrayShape]
    breaches: dict[str, Count]
    paired: list[PairedShape]
    tests: list[dict[str, Any]]
    seed_family: list[dict[str, Any]]
    sees: dict[str, str]
    deviations: list[DeviationShape] = []
    timings: list[TimingShape] = []  # receipts before they were taken lack them
    execution: ExecutionShape | None = None  # of a campaign that was run in pieces


class EnumerationShape(Strict, frozen=True):
    """What one enumeration observed."""

    id: str
    claim: str
    compared: Count
    values: dict[str, list[int] | str]


class ExhaustiveShape(PredicateShape, frozen=True):
    """Enumerations."""

    kind: Literal["exhaustive"]
    enumerations: list[EnumerationShape]


class PolicyShape(Strict, frozen=True):
    """Tables of one policy as a device emitted them, and what follows from them."""

    survey: dict[str, Any]
    distances: list[dict[str, Any]]


class OracleShape(PredicateShape, frozen=True):
    """The bridge to the exact rational law."""

    kind: Literal["oracle"]
    policies: list[PolicyShape]


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


class TrialShape(Strict, frozen=True):
    """A trial of any sampler."""

    kind: Literal["trial"]
    profile: str
    assurance: Literal["self-attested"]
    tool: dict[str, str]
    run: dict[str, str]
    environment: dict[str, Any]
    sampler: TrialSamplerShape
    plan: dict[str, Any]
    plan_sha256: Sha256
    seed: SeedShape
    cells: list[TrialCellShape]
    strays: list[TrialStrayShape]
    breaches: dict[str, Count]
    broken: dict[str, str]
    tests: list[dict[str, Any]]
    effects: dict[str, dict[str, str]]
    resolution: str
    verdict: str
    reasons: list[str]
    sentence: str
    non_claims: list[str]
    deviations: list[DeviationShape] = []
    execution: ExecutionShape | None = None  # of a trial that was run in pieces


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


class SurveyShape(Strict, frozen=True):
    """A survey of samplers."""

    kind: Literal["survey"]
    profile: Literal["survey"]
    assurance: Literal["self-attested"]
    tool: dict[str, str]
    run: dict[str, str]
    environment: dict[str, Any]
    samplers: list[SurveyRowShape]
    not_run: dict[str, str]
    verdict: Literal["SURVEYED"]
    reasons: list[str]
    sentence: str
    non_claims: list[str]


class EnvelopeShape(Strict, frozen=True):
    """The outer in-toto statement; its predicate has a shape by kind."""

    type_: str = msgspec.field(name="_type")
    predicate_type: str
    subject: Annotated[list[SubjectShape], msgspec.Meta(min_length=1)]
    predicate: dict[str, Any]


SHAPES: dict[str, type[Strict]] = {
    "qualify": QualifyShape,
    "exhaustive": ExhaustiveShape,
    "oracle": OracleShape,
    "trial": TrialShape,
    "survey": SurveyShape,
}


def check_shape(statement: Any) -> None:
    """ReceiptError unless this is a statement of our predicate, version 1, with every field and no other."""
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT:
        raise ReceiptError(f"not an in-toto statement ({STATEMENT})")
    if statement.get("predicateType") != PREDICATE:
        other = MAJOR.fullmatch(str(statement.get("predicateType")))
        way = f"; it is of major {other[1]}: use the pp3 that wrote it" if other else ""
        raise ReceiptError(f"predicate {statement.get('predicateType')!r}; this version reads {PREDICATE!r}{way}")
    try:
        kind = msgspec.convert(statement, EnvelopeShape).predicate.get("kind")
        if not isinstance(kind, str) or kind not in SHAPES:
            raise ReceiptError(f"kind {kind!r}; this version reads {', '.join(SHAPES)}")
        msgspec.convert(statement["predicate"], SHAPES[kind])
    except msgspec.ValidationError as error:
        raise ReceiptError(str(error)) from None
