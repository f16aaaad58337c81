"""A receipt as it is opened for a comparison: what verification says of it here, and which of its sources differ."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pp3.harness.cells import Cell
from pp3.harness.errors import Exit, ReceiptError, VerificationError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import read
from pp3.harness.evidence.verify import Verified, verify

CAMPAIGN, TRIAL, SURVEY, WIRE, ENGINE = "qualify", "trial", "survey", "wire", "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One receipt."""

    path: Path
    statement: dict[str, Any]
    verified: Verified
    stale: tuple[str, ...]  # bound sources that differ in this tree

    @property
    def predicate(self) -> dict[str, Any]:
        """What it claims."""
        found: dict[str, Any] = self.statement["predicate"]
        return found

    @property
    def kind(self) -> str:
        """qualify, wire, trial, engine, oracle, exhaustive, survey, probe or calibration."""
        return str(self.predicate["kind"])

    @property
    def unverified(self) -> str:
        """Why it does not verify here, though it may be authentic: other sources made it. "" if it verifies."""
        if self.verified.ok:
            return ""
        open_ = next(step for step in self.verified.steps if step.outcome in ("FAIL", "skip"))
        return f"does not verify here: {open_.name}: {open_.detail}"

    @property
    def judged(self) -> str:
        """Who was judged, and where; of a survey, how many."""
        return who(self.predicate) + ("" if self.kind == SURVEY else f" on {device(self.predicate)}")


def open_receipt(path: Path) -> Opened:
    """Read and verify a receipt.

    ReceiptError: missing 2, no receipt 1. VerificationError (1) if it is untrue and these sources made it; one that
    other sources made may be authentic, and says so in `unverified`.
    """
    content, statement = read(path)
    stale = _stale(path, statement)
    verified = verify(path, content)
    authentic = any(step.name == "shape" for step in verified.steps if step.outcome == "ok")
    if not verified.ok and not (authentic and stale):
        raise VerificationError(f"{path}: {verified.sentence}")
    return Opened(path=path, statement=statement, verified=verified, stale=tuple(stale))


def _stale(path: Path, statement: dict[str, Any]) -> list[str]:
    """Bound sources that differ in this tree; of a survey, those of its first trial that lies beside it."""
    kind = provenance.kind_of(statement["predicate"])
    if kind != SURVEY:
        return provenance.stale(kind, statement["subject"], provenance.TREE)
    trials = [path.parent / subject["name"] for subject in statement["subject"]]
    return next((_stale(trial, read(trial)[1]) for trial in trials if trial.is_file()), [])


def who(predicate: dict[str, Any]) -> str:
    """Name and version of the sampler; of a survey, how many."""
    if predicate["kind"] == SURVEY:
        return f"{len(predicate['samplers'])} samplers"
    return f"{predicate['sampler']['name']} {predicate['sampler']['version']}"


def identity(predicate: dict[str, Any]) -> dict[str, str]:
    """What the sampler ran on, in plain strings."""
    if predicate["kind"] == SURVEY:
        return {}
    if predicate["kind"] == ENGINE:
        settings = predicate["sampler"]["device"]
        return {"gpu": settings["device"]} if settings.get("device", "cpu") != "cpu" else {}
    found = predicate["sampler"]["device"] if predicate["kind"] == TRIAL else predicate["kernels"]["identity"]
    return dict(found)


def device(predicate: dict[str, Any]) -> str:
    """The GPU, or that there was none."""
    return identity(predicate).get("gpu", "a CPU")


def machine(named: dict[str, str]) -> str:
    """The GPU of an identity, or else the model of its processor; older receipts do not name one."""
    return named.get("gpu") or named.get("processor") or "a CPU"


def requests_of(predicate: dict[str, Any]) -> int:
    """Requests of all targets, or of all samplers of a survey; 0 where nothing is sampled."""
    if predicate["kind"] in (CAMPAIGN, WIRE):
        return int(predicate["plan"]["requests"]) * len(predicate["plan"]["targets"])
    if predicate["kind"] == TRIAL:
        from pp3.harness.evidence.trial import trial_of

        return trial_of(predicate).requests
    if predicate["kind"] == ENGINE:
        return sum(int(condition["asks"]) for condition in predicate["plan"]["conditions"])
    return sum(int(row["requests"]) for row in predicate.get("samplers", []))


def cells_of(predicate: dict[str, Any]) -> dict[str, Cell]:
    """Every cell of a campaign's or a trial's plan by id, with its law. PP3Error if the plan does not rebuild."""
    if predicate["kind"] == TRIAL:
        from pp3.harness.evidence.trial import trial_of

        return {cell.id: cell for problem in trial_of(predicate).problems for cell in problem.cells}
    from pp3.harness.transport.wire_plan import of_any_plan
    from pp3.harness.verdict import all_cells

    return {cell.id: cell for cell in all_cells(of_any_plan(predicate["plan"]))}


def open_sampled(path: Path, command: str) -> Opened:
    """A receipt that holds counts. ReceiptError (2) for another, with the command that serves it instead."""
    _, statement = read(path)
    kind = statement["predicate"]["kind"]
    instead = {
        WIRE: "its path is a part of it: run `pp3 qualify --path wire` with its counter again, and compare the two",
        SURVEY: "give the receipt of one of its trials, which lie beside it",
        "oracle": "its integers are exact: run `pp3 oracle`, and compare the two receipts",
        ENGINE: "its engine draws its own numbers: run `pp3 qualify --engine` again",
        "exhaustive": "its integers are exact: run `pp3 exhaustive`, and compare the two receipts",
        "probe": "its integers are clocks: run `pp3 probe`, whose ratios hold within one run",
        "calibration": "it judges the battery: run `pp3 calibrate` with its counter again",
    }
    if kind in instead:
        raise ReceiptError(
            f"{path}: {command} takes a campaign or a trial, and this is of kind {kind}; {instead[kind]}", Exit.USAGE
        )
    return open_receipt(path)
