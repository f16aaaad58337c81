"""A receipt: an in-toto Statement whose predicate holds the plan, the integers and what follows from them.

Shape: https://github.com/in-toto/attestation, Statement v1. The file's bytes are canonical, its name holds their
SHA-256, and it is never replaced: temp file, fsync, link.
"""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pp3 import __version__
from pp3.harness import canonical
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign, plan_sha256
from pp3.harness.errors import Exit, ReceiptError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.moment import stamp as stamp
from pp3.harness.evidence.moment import utc as utc
from pp3.harness.evidence.once import leftovers as leftovers
from pp3.harness.evidence.once import write_once as write_once
from pp3.harness.evidence.shapes import PREDICATE, STATEMENT, check_shape
from pp3.harness.seeds import RULE, Seed

if TYPE_CHECKING:
    from pp3.harness.exact import oracle, suite
    from pp3.harness.run import Measured
    from pp3.harness.samplers.contract import Description
    from pp3.harness.verdict import Judgement

NON_CLAIMS = (
    "Not qualified for serving.",
    "Nothing is shown of any real model, model pair, grammar lifecycle or other hardware.",
    "No live A/B test is advised by this receipt.",
    "No speedup is claimed.",
)


def build(
    campaign: Campaign,
    seed: Seed,
    counter: int,
    chosen: str,
    started: datetime,
    measured: "Measured",
    judgement: "Judgement",
    execution: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The statement of one qualification; with how it was run, if in pieces (shapes.ExecutionShape)."""
    who = measured.sampler
    return {
        "_type": STATEMENT,
        "predicateType": PREDICATE,
        "subject": provenance.sources("qualify"),
        "predicate": {
            "assurance": "self-attested",
            "breaches": measured.breaches,
            "cells": [
                {"batch": batch, "counts": counts, "first": measured.first[cell, batch], "id": cell}
                for (cell, batch), counts in measured.counts.items()
            ],
            "deviations": [one.plain() for one in judgement.deviations],
            "environment": provenance.environment(),
            **({"execution": execution} if execution else {}),
            "kernels": measured.kernels,
            "kind": "qualify",
            "nonClaims": list(NON_CLAIMS),
            "paired": measured.pairs,
            "plan": campaign.plan,
            "planSha256": plan_sha256(campaign),
            "profile": str(who.kind),
            "reasons": judgement.reasons,
            "run": {"finishedUtc": utc(datetime.now(UTC)), "startedUtc": utc(started)},
            "sampler": sampler_of(who, Backend(who.backend)),
            "seed": {"chosen": chosen, "counter": counter, "rule": RULE, "sha256": seed.value.hex()},
            "seedFamily": judgement.seed_family,
            "sees": judgement.sees,
            "sentence": judgement.sentence,
            "strays": measured.strays,
            "tests": [test.plain() for test in judgement.tests],
            "timings": measured.timings,
            "tool": {"name": "pp3", "version": __version__},
            "verdict": judgement.verdict.value,
        },
    }


def build_exact(
    kind: str,
    started: datetime,
    sampler: dict[str, Any],
    kernels: dict[str, Any],
    observed: list[dict[str, Any]],
    concluded: "suite.Conclusion | oracle.Conclusion",
) -> dict[str, Any]:
    """The statement of one run of the enumerations, or of the bridge to the rational law."""
    return {
        "_type": STATEMENT,
        "predicateType": PREDICATE,
        "subject": provenance.sources(kind),
        "predicate": {
            "assurance": "self-attested",
            "policies" if kind == "oracle" else "enumerations": observed,
            "environment": provenance.environment(),
            "kernels": kernels,
            "kind": kind,
            "nonClaims": list(NON_CLAIMS),
            "profile": "exact",
            "reasons": concluded.reasons,
            "run": {"finishedUtc": utc(datetime.now(UTC)), "startedUtc": utc(started)},
            "sampler": sampler,
            "sentence": concluded.sentence,
            "tool": {"name": "pp3", "version": __version__},
            "verdict": concluded.verdict.value,
        },
    }


def sampler_of(who: "Description", where: Backend) -> dict[str, Any]:
    """Who was judged, in receipt form."""
    return {
        "backend": where.value,
        "maxVocab": who.max_vocab,
        "minVocab": who.min_vocab,
        "name": who.name,
        "version": who.version,
    }


def write(statement: dict[str, Any], folder: Path) -> Path:
    """Write a receipt into a folder under its own name. Never overwrites; leaves no partial file."""
    content = canonical.encode(statement)
    moment = stamp(statement["predicate"]["run"]["startedUtc"])
    return write_once(folder / f"{moment}-{hashlib.sha256(content).hexdigest()}.json", content)


def read(path: Path) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a receipt and the statement they hold. ReceiptError: missing 2, malformed or another kind 1."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ReceiptError(f"{path}: {error.strerror}; give the path of a receipt", Exit.USAGE) from None
    try:
        statement = canonical.decode(content)
        check_shape(statement)
    except ReceiptError as error:
        raise ReceiptError(f"{path}: {error}") from None
    return content, statement
