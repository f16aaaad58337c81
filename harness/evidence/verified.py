"""What became of a receipt: the steps of its verification, and the last line that follows from them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a verification."""

    name: str
    outcome: str  # ok, FAIL or skip
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What became of a receipt."""

    sha256: str
    verdict: str
    steps: list[Step]
    current: str  # yes, no or unchecked: of the sources in a tree
    by: str = ""  # the digest of the receipt that stands in its place, by the ledger
    elsewhere: bool = False  # not recomputed here, and made by other sources than these

    @property
    def failed(self) -> Step | None:
        """The step that does not hold."""
        return next((step for step in self.steps if step.outcome == "FAIL"), None)

    @property
    def ok(self) -> bool:
        """Every step that ran holds, and the verdict was recomputed; `current` and `by` are told apart from it."""
        return self.failed is None and any(step.name == "verdict" and step.outcome == "ok" for step in self.steps)

    @property
    def assurance(self) -> str:
        """Who vouches for the integers: whoever wrote them down, somebody who ran them again, or an allowed signer."""
        held = {step.name for step in self.steps if step.outcome == "ok"}
        return "signed" if "signature" in held else "replayed" if "replay" in held else "self-attested"

    @property
    def sentence(self) -> str:
        """The last line."""
        said = f"verdict={self.verdict} sha256={self.sha256} assurance={self.assurance}"
        over = f": authentic, superseded by {self.by}: diagnostic only" if self.by else ""
        if self.failed:
            return f"NOT VERIFIED at {self.failed.name}: {self.failed.detail}"
        if self.ok:
            return f"VERIFIED {said} current={self.current}{over}"
        return f"NOT RECOMPUTED {said}{over}"
