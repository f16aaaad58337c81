"""The receipt of a survey: the trials' receipts by digest, what each says, and what was not run."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pp3 import __version__
from pp3.harness import canonical
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import NON_CLAIMS, utc
from pp3.harness.evidence.shapes import PREDICATE, STATEMENT
from pp3.harness.evidence.trial import trial_of

VERDICT = "SURVEYED"
COPIED = ("profile", "reasons", "resolution", "sentence", "verdict")  # from a trial's receipt, word for word
NAME = re.compile(r"[0-9A-Za-z]+-[0-9a-f]{64}\.json")


def build(started: datetime, rows: list[dict[str, Any]], left: dict[str, str]) -> dict[str, Any]:
    """The statement of one survey; its subjects are the receipts of its trials."""
    return {
        "_type": STATEMENT,
        "predicateType": PREDICATE,
        "subject": [{"digest": {"sha256": digest_of(row["receipt"])}, "name": row["receipt"]} for row in rows],
        "predicate": {
            "assurance": "self-attested",
            "environment": provenance.environment(),
            "kind": "survey",
            "nonClaims": list(NON_CLAIMS),
            "notRun": left,
            "profile": "survey",
            "reasons": [],
            "run": {"finishedUtc": utc(datetime.now(UTC)), "startedUtc": utc(started)},
            "samplers": rows,
            "sentence": sentence(rows, left),
            "tool": {"name": "pp3", "version": __version__},
            "verdict": VERDICT,
        },
    }


def digest_of(name: str) -> str:
    """The SHA-256 in a receipt's file name."""
    return name.removesuffix(".json").rpartition("-")[2]


def sentence(rows: list[dict[str, Any]], left: dict[str, str]) -> str:
    """What the survey found, in one sentence."""
    verdicts = [row["verdict"] for row in rows]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(sorted(verdicts)))
    rest = f"; {len(left)} not run" if left else ""
    return f"SURVEY: {len(rows)} samplers judged: {counts}{rest}. Self-attested."


def steps(path: Path, predicate: dict[str, Any], subject: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Outcome, name and detail of each step: the sentence, then every trial's receipt that lies beside this one."""
    rows = predicate["samplers"]
    if predicate["sentence"] != sentence(rows, predicate["notRun"]) or predicate["reasons"]:
        raise VerificationError(f"survey: the sentence recomputes to {sentence(rows, predicate['notRun'])!r}")
    names, receipts = [row["name"] for row in rows], [row["receipt"] for row in rows]
    for what, listed in (("sampler", [*names, *predicate["notRun"]]), ("receipt", receipts)):
        again = [name for name in listed if listed.count(name) > 1]
        if again:
            raise VerificationError(f"survey: {what} {again[0]} is there twice")
    for name in receipts:
        if NAME.fullmatch(name) is None:
            raise VerificationError(f"survey: {name!r} is no name of a receipt")
    named = [{"digest": {"sha256": digest_of(name)}, "name": name} for name in receipts]
    if named != subject:
        raise VerificationError("survey: its subjects are not the receipts of its samplers")
    yield "ok", "survey", f"{len(rows)} samplers"
    for row in rows:
        yield _row(path.parent / row["receipt"], row)
    yield "ok", "verdict", VERDICT
    if predicate["nonClaims"] != list(NON_CLAIMS):
        raise VerificationError("non-claims: not the fixed ones; nothing may be left out")
    yield "ok", "non-claims", f"{len(NON_CLAIMS)} stated"


def _row(file: Path, row: dict[str, Any]) -> tuple[str, str, str]:
    """One trial's receipt, verified, and what this survey says of it."""
    from pp3.harness.evidence.verify import verify

    if not file.is_file():
        return "skip", row["name"], f"{row['receipt']} does not lie beside this receipt"
    content = file.read_bytes()
    found = verify(file, content)
    if not found.ok:
        raise VerificationError(f"{row['name']}: {found.sentence}")
    said = canonical.decode(content)["predicate"]
    if said["kind"] != "trial":
        raise VerificationError(f"{row['name']}: {row['receipt']} is of kind {said['kind']}, not of a trial")
    mine = {key: said[key] for key in COPIED} | {"version": said["sampler"]["version"], "requests": requests_of(said)}
    odd = [key for key in mine if mine[key] != row[key]]
    if odd:
        raise VerificationError(f"{row['name']}: its {odd[0]} is {mine[odd[0]]!r} there, {row[odd[0]]!r} here")
    return "ok", row["name"], f"{row['verdict']}, verified"


def requests_of(predicate: dict[str, Any]) -> int:
    """Requests of all targets of a trial."""
    return trial_of(predicate).requests
