"""What a reviewer brings to a receipt: the ledger, allowed signers, a tree, and the sampler and sources expected.

Expectations come from the reviewer, never from the receipt. What is not asked for is skipped, which is not ok.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError, VerificationError
from pp3.harness.evidence import ledger, provenance, receipt, signature
from pp3.harness.regression.integers import first_mismatch, of_predicate

STALE = "stale"  # begins what is said of sources that the tree has otherwise: neither ok nor a failure, exit 3
REPLAYED = ("qualify", "trial")  # kinds whose seed fixes integers
DIGEST = re.compile(r"[0-9a-f]{64}")
Step = tuple[str, str, str]  # outcome, name, detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What a receipt is held against beside itself."""

    source: Path | None = None  # a tree whose files the bound ones must be
    ledger: Path | None = None  # in place of the one that lies above the receipt, or the checkout's
    key: Path | None = None  # allowed signers
    signer: str | None = None
    replay: Path | None = None  # a receipt of the same plan and seed, run again by somebody
    sampler: str = ""  # NAME or NAME==VERSION
    sources: tuple[str, ...] = ()  # SHA256, or NAME=SHA256

    def checked(self) -> "Review":
        """CampaignError for what cannot be expected."""
        if self.source is not None and not self.source.is_dir():
            raise CampaignError(f"--source {self.source}: no such folder; give the root of a checkout")
        if self.ledger is not None and not self.ledger.is_file():
            raise CampaignError(f"--ledger {self.ledger}: no such file; give receipts/{ledger.FILE}")
        if self.signer is not None and self.key is None:
            raise CampaignError(f"--signer {self.signer} without --key: give a file of allowed signers too")
        for expected in self.sources:
            if DIGEST.fullmatch(expected.rpartition("=")[2]) is None:
                raise CampaignError(f"--expect-source {expected}: give SHA256 or NAME=SHA256, 64 digits in lower case")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the ledger says of a receipt."""

    step: Step
    by: str = ""  # the digest of the receipt that stands in its place


def standing(path: Path, sha256: str, verdict: str, given: Path | None) -> Standing:
    """The ledger's word on a receipt. VerificationError for a ledger with problems, or that says another verdict."""
    where = given or ledger.find(path)
    if where is None:
        return Standing(step=("skip", "ledger", "no ledger above the receipt, and no checkout; give --ledger"))
    known = ledger.read(where)
    if known.problems:
        raise VerificationError(f"ledger: {where}: {known.problems[0]}")
    record = known.records.get(sha256)
    if record is None:
        return Standing(step=("skip", "ledger", f"not recorded in {where.parent.name}/{where.name}"))
    if record.verdict != verdict:
        raise VerificationError(f"ledger: records the verdict {record.verdict}, the receipt says {verdict}")
    head = known.head(sha256)
    if head == sha256:
        return Standing(step=("ok", "ledger", f"recorded as {record.name}, not superseded"))
    detail = f"authentic, superseded by {head}: diagnostic only ({known.superseded[sha256].reason})"
    return Standing(step=("ok", "ledger", detail), by=head)


def steps(path: Path, content: bytes, statement: dict[str, Any], review: Review) -> Iterator[Step]:
    """Signature, sources, and what is expected."""
    predicate, subject = statement["predicate"], statement["subject"]
    if review.key is not None:
        yield "ok", "signature", f"by {signature.check(path, content, review.key, review.signer)}"
    else:
        lies = f", {signature.beside(path).name} was not looked at" if signature.beside(path).is_file() else ""
        yield "skip", "signature", f"no --key given{lies}"
    if review.replay is not None:
        yield "ok", "replay", _replay(predicate, review.replay)
    yield _sources(predicate, subject, review.source)
    if review.sampler:
        yield "ok", "expected sampler", _sampler(predicate, review.sampler)
    for expected in review.sources:
        yield "ok", "expected source", _source(statement, expected)


def _replay(predicate: dict[str, Any], path: Path) -> str:
    """Another receipt of the same plan and seed, marked as a replay, whose integers are these."""
    content, statement = receipt.read(path)
    digest, other = hashlib.sha256(content).hexdigest(), statement["predicate"]
    if path.stem.rpartition("-")[2] != digest:
        raise VerificationError(f"replay: {path}: its bytes hash to {digest}, not to its name")
    if predicate["kind"] not in REPLAYED or other["kind"] != predicate["kind"]:
        raise VerificationError(f"replay: {path} is of kind {other['kind']!r}, this receipt of {predicate['kind']!r}")
    if other["seed"]["chosen"] != "replay":
        raise VerificationError(
            f"replay: {path} is a run of its own ({other['seed']['chosen']!r}); pp3 replay makes one"
        )
    for key in ("planSha256", "seed"):
        mine, its = (one[key] if key != "seed" else one[key]["sha256"] for one in (predicate, other))
        if mine != its:
            raise VerificationError(f"replay: {path} has another {key}: {its}, not {mine}")
    found = of_predicate(predicate)
    differs = first_mismatch(found, of_predicate(other), {})
    if differs is not None:
        raise VerificationError(f"replay: {differs.sentence}")
    return f"{found.size:,} integers are those of {digest[:16]}, run again; whoever made that vouches for it"


def _sources(predicate: dict[str, Any], subject: list[dict[str, Any]], tree: Path | None) -> Step:
    if tree is None:
        return "skip", "sources", "no --source tree given"
    if predicate["kind"] not in (*provenance.ROOTS,):
        return "skip", "sources", f"a {predicate['kind']} binds receipts; each of them binds its sources"
    stale = provenance.stale(provenance.kind_of(predicate), subject, tree)
    if stale:
        return "skip", "sources", f"{STALE}: {len(stale)} of {len(subject)} are others in the tree: {stale[0]}"
    return "ok", "sources", f"all {len(subject)} equal the tree"


def _sampler(predicate: dict[str, Any], expected: str) -> str:
    """NAME or NAME==VERSION, letter for letter; a survey judged many, none alone."""
    if "sampler" not in predicate:
        raise VerificationError(f"expected sampler: {expected}; a {predicate['kind']} judges none of its own")
    name, version = predicate["sampler"]["name"], predicate["sampler"]["version"]
    if expected not in (name, f"{name}=={version}"):
        raise VerificationError(f"expected sampler: {expected}; the receipt is of {name}=={version}")
    return f"{name}=={version}"


def _source(statement: dict[str, Any], expected: str) -> str:
    """A bound file of this digest, of this name if one is given."""
    name, _, digest = expected.rpartition("=")
    bound = [(one["name"], one["digest"]["sha256"]) for one in statement["subject"]]
    bound += [tuple(one) for one in statement["predicate"].get("sampler", {}).get("files", [])]
    found = [held for held, sha256 in bound if sha256 == digest and name in ("", held)]
    if not found:
        said = [sha256 for held, sha256 in bound if held == name]
        raise VerificationError(
            f"expected source: {expected}; " + (f"it is bound as {said[0]}" if said else "nothing so is bound")
        )
    return f"{found[0]} is {digest}"
