"""Verify a receipt without trusting who made it: no torch, no triton, no GPU.

Steps, one line each: the bytes, the name, the shape, the plan and the seed, the laws rebuilt from our own targets, the
counts and every statistic recomputed, the error budget, the verdict, the non-claims; then what the reviewer brings, in
review.py: the ledger, a signature, the sources in a tree, what is expected. A step is ok, FAIL, or skip with its
reason; a skip is never ok.
"""

import hashlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.errors import PP3Error, ReceiptError, VerificationError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import NON_CLAIMS, read, stamp
from pp3.harness.evidence.review import STALE, Review
from pp3.harness.evidence.review import standing as ledger_standing
from pp3.harness.evidence.review import steps as review_steps
from pp3.harness.evidence.shapes import PREDICATE, check_shape
from pp3.harness.evidence.step import at, ok
from pp3.harness.evidence.verified import Step, Verified

__all__ = ["Step", "Verified", "check_name", "verify"]


def verify(path: Path, content: bytes, source: Path | None = None, review: Review | None = None) -> Verified:
    """Run every step on the bytes of a receipt; stops at the first that fails.

    A superseded receipt that other sources made need not follow here: its bytes are those that the ledger records, and
    what does not recompute is skipped. It is never verified by that.
    """
    review = review or Review(source=source)
    digest = hashlib.sha256(content).hexdigest()
    steps: list[Step] = []
    elsewhere, by = False, ""
    statement: dict[str, Any] = {}
    try:
        statement = at("bytes", canonical.decode, content)
        steps.append(ok("bytes", f"canonical, {len(content):,} bytes"))
        for step in _authentic(path, statement, digest):
            steps.append(step)
        standing = at("ledger", ledger_standing, path, digest, statement["predicate"]["verdict"], review.ledger)
        by = standing.by
        try:
            for step in _recomputed(path, statement):
                steps.append(step)
        except PP3Error as error:
            name, detail = _named(error)
            made = _made_elsewhere(path, statement)
            elsewhere = bool(made)
            steps.append(
                Step(name=name, outcome="skip" if made and by else "FAIL", detail=detail.removesuffix(made) + made)
            )
        if not any(step.outcome == "FAIL" for step in steps):
            for outcome, name, said in chain([standing.step], review_steps(path, content, statement, review)):
                steps.append(Step(name=name, outcome=outcome, detail=said))
    except (ReceiptError, VerificationError) as error:
        name, detail = _named(error)
        steps.append(Step(name=name, outcome="FAIL", detail=detail))
    found = {step.name: step.detail for step in steps if step.outcome == "ok"}
    verdict = found.get("verdict") or (str(statement["predicate"]["verdict"]) if by else "unknown")
    stale = any(step.name == "sources" and step.detail.startswith(STALE) for step in steps)
    current = "no" if stale else "yes" if "sources" in found else "unchecked"
    return Verified(sha256=digest, verdict=verdict, steps=steps, current=current, by=by, elsewhere=elsewhere)


def _named(error: PP3Error) -> tuple[str, str]:
    """The step that an error names first, and what it says of it."""
    name, _, detail = str(error).partition(": ")
    return name, detail


def _made_elsewhere(path: Path, statement: dict[str, Any]) -> str:
    """What to add where a value recomputes to another, if the sources that made it are not these."""
    kind, subject = provenance.kind_of(statement["predicate"]), statement["subject"]
    if kind == "survey":
        trials = [path.parent / one["name"] for one in subject]
        return next((_made_elsewhere(trial, read(trial)[1]) for trial in trials if trial.is_file()), "")
    stale = provenance.stale(kind, subject, provenance.TREE) if kind in provenance.ROOTS else []
    if not stale:
        return ""
    return f" (made by other sources: {len(stale)} of {len(subject)} differ here; the pp3 that made it verifies it)"


def _authentic(path: Path, statement: Any, digest: str) -> Iterator[Step]:
    """The steps that need nothing but the digest, the name and the shape."""
    check_name(path, digest)
    yield ok("name", f"sha256 {digest}")
    at("shape", check_shape, statement)
    predicate = statement["predicate"]
    if not path.name.startswith(f"{stamp(predicate['run'].get('startedUtc', ''))}-"):
        raise VerificationError(
            f"shape: started {predicate['run'].get('startedUtc')!r}, the name says {path.name[:16]}"
        )
    if predicate["kind"] in ("oracle", "exhaustive"):
        from pp3.harness.evidence.exact import check_fixed

        check_fixed(predicate)
    yield ok("shape", f"in-toto statement, {PREDICATE}")


def check_name(path: Path, digest: str) -> None:
    """VerificationError unless the digest of the bytes is the one in the name."""
    if path.stem.rpartition("-")[2] != digest:
        raise VerificationError(f"name: the bytes hash to {digest}, the name says {path.stem.rpartition('-')[2]}")


def _recomputed(path: Path, statement: dict[str, Any]) -> Iterator[Step]:
    """The steps of each kind: whatever follows from the plan and the integers. Only what that kind needs is loaded."""
    predicate = statement["predicate"]
    match predicate["kind"]:
        case "survey":
            from pp3.harness.evidence import survey

            for outcome, name, detail in survey.steps(path, predicate, statement["subject"]):
                yield Step(name=name, outcome=outcome, detail=detail)
            return
        case "qualify" | "wire":
            from pp3.harness.evidence.campaign import recomputed
        case "trial":
            from pp3.harness.evidence.trial import recomputed
        case "engine":
            from pp3.harness.evidence.engine import recomputed
        case "probe":
            from pp3.harness.evidence.probe import recomputed
        case "calibration":
            from pp3.harness.evidence.calibration import recomputed
        case _:
            from pp3.harness.evidence.exact import recomputed
    yield from recomputed(predicate)
    if predicate["nonClaims"] != list(NON_CLAIMS):
        raise VerificationError("non-claims: not the fixed ones; nothing may be left out")
    yield ok("non-claims", f"{len(NON_CLAIMS)} stated")
