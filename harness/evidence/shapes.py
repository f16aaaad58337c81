"""The shapes of receipts: what each kind holds, field by field. Unknown fields are refused, no count is negative."""

import re
from typing import Annotated, Any, Literal

import msgspec

from pp3.harness.errors import ReceiptError
from pp3.harness.evidence.parts import (
    CalibratedShape,
    CellShape,
    Count,
    DeviationShape,
    EngineCellShape,
    EngineSamplerShape,
    EnumerationShape,
    ExactShape,
    ExecutionShape,
    KernelsShape,
    PairedShape,
    PathShape,
    PolicyShape,
    ReplacedShape,
    SamplerShape,
    SeedShape,
    Sha256,
    StrayShape,
    Strict,
    SubjectShape,
    TailShape,
    TimingShape,
)
from pp3.harness.evidence.probe_parts import (
    BandwidthShape,
    FiguresShape,
    ProbedShape,
)
from pp3.harness.evidence.trial_parts import (
    OverlayShape,
    SurveyRowShape,
    TrialCellShape,
    TrialSamplerShape,
    TrialStrayShape,
)

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:pp3:receipt:v1"
MAJOR = re.compile(r"urn:pp3:receipt:v(\d+)")


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


class CampaignShape(PredicateShape, frozen=True):
    """A campaign, whatever its proposals go through."""

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
    deviations: list[DeviationShape] = msgspec.field(default_factory=list)
    timings: list[TimingShape] = msgspec.field(default_factory=list)  # receipts before they were taken lack them
    execution: ExecutionShape | None = None  # of a campaign that was run in pieces


class QualifyShape(CampaignShape, frozen=True, kw_only=True):
    """A campaign."""

    kind: Literal["qualify"]


class WireShape(CampaignShape, frozen=True, kw_only=True):
    """A campaign whose proposals went over the wire."""

    kind: Literal["wire"]
    path: PathShape


class ExhaustiveShape(PredicateShape, frozen=True):
    """Enumerations."""

    kind: Literal["exhaustive"]
    enumerations: list[EnumerationShape]


class OracleShape(PredicateShape, frozen=True):
    """The bridge to the exact rational law."""

    kind: Literal["oracle"]
    policies: list[PolicyShape]


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
    deviations: list[DeviationShape] = msgspec.field(default_factory=list)
    execution: ExecutionShape | None = None  # of a trial that was run in pieces
    overlay: OverlayShape | None = None  # of a trial of the overlays that `pp3 prepare` writes


class EngineShape(Strict, frozen=True):
    """A qualification of a whole engine."""

    kind: Literal["engine"]
    profile: Literal["engine"]
    assurance: Literal["self-attested"]
    tool: dict[str, str]
    run: dict[str, str]
    environment: dict[str, Any]
    sampler: EngineSamplerShape
    plan: dict[str, Any]
    plan_sha256: Sha256
    seed: SeedShape
    attempts: Annotated[int, msgspec.Meta(ge=1)]  # starts, where it was run in pieces
    tokens: Count  # of all answers
    cells: list[EngineCellShape]
    exact: list[ExactShape]
    breaches: dict[str, Count]
    tests: list[dict[str, Any]]
    resolution: str
    verdict: str
    reasons: list[str]
    sentence: str
    non_claims: list[str]
    replaced: ReplacedShape | None = None  # receipts before it was recorded lack it


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


class ProbeShape(PredicateShape, frozen=True):
    """A probe of the kernels' speed."""

    kind: Literal["probe"]
    plan: dict[str, Any]
    absent: dict[str, str]
    bandwidth: BandwidthShape
    cases: list[ProbedShape]
    exclusions: list[str]
    figures: list[FiguresShape]
    peers: dict[str, str]


class CalibrationShape(PredicateShape, frozen=True):
    """A calibration of the battery by null campaigns."""

    kind: Literal["calibration"]
    plan: dict[str, Any]
    plan_sha256: Sha256
    seed: SeedShape
    levels: list[CalibratedShape]
    tails: list[TailShape]
    figures: dict[str, list[dict[str, Any]]]


class EnvelopeShape(Strict, frozen=True):
    """The outer in-toto statement; its predicate has a shape by kind."""

    type_: str = msgspec.field(name="_type")
    predicate_type: str
    subject: Annotated[list[SubjectShape], msgspec.Meta(min_length=1)]
    predicate: dict[str, Any]


SHAPES: dict[str, type[Strict]] = {
    "qualify": QualifyShape,
    "wire": WireShape,
    "exhaustive": ExhaustiveShape,
    "oracle": OracleShape,
    "trial": TrialShape,
    "engine": EngineShape,
    "survey": SurveyShape,
    "probe": ProbeShape,
    "calibration": CalibrationShape,
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
