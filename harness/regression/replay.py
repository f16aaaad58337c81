"""Run the plan and seed of a receipt again on the present sources, and hold every integer against those it holds.

Our own sampler must give equal integers on any device; another's must where nothing but its own code can change them
(equality.py says when). A part of a plan is run with each request under its number in the whole.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pp3.harness import canonical
from pp3.harness.campaign import Campaign, of_plan, parts_of
from pp3.harness.errors import CampaignError, Exit, PP3Error, ReceiptError, VerificationError
from pp3.harness.evidence.trial import check_laws, trial_of
from pp3.harness.regression.homogeneity import holm, two_sample
from pp3.harness.regression.integers import Integers, Mismatch, first_mismatch
from pp3.harness.regression.opened import Opened
from pp3.harness.seeds import RULE, Seed
from pp3.harness.trial.plan import Trial

ALPHA = 1e-5  # of the two-sample tests together, where equal counts are not promised


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of it."""

    where: str  # who ran it again, and on what
    measured_on: str  # what the receipt was measured on
    compared: int  # integers
    part: str  # "" for the whole plan
    mismatch: Mismatch | None
    not_promised: str  # why counts may differ, or ""
    smallest: float = 1.0  # Holm p of the two-sample tests, where counts may differ and do
    worst: str = ""  # the cell of it

    @property
    def exit(self) -> Exit:
        """1 if integers differ that must be equal, or differ by more than chance."""
        if self.mismatch is None:
            return Exit.OK
        return Exit.OK if self.not_promised and self.smallest > ALPHA else Exit.NEGATIVE

    @property
    def sentence(self) -> str:
        """The conclusion."""
        part = f" of {self.part}" if self.part else ""
        if self.mismatch is None:
            return (
                f"EQUAL: {self.where} gives every one of {self.compared:,} integers{part} again "
                f"that was measured on {self.measured_on}"
            )
        if not self.not_promised:
            return f"NOT EQUAL: {self.where} gives other integers{part}; the first is {self.mismatch.sentence}"
        chance = f"smallest Holm p {self.smallest:.2g} of {self.worst}"
        if self.exit is Exit.OK:
            return f"NO EVIDENCE of a difference{part} ({chance}); equal counts are not promised: {self.not_promised}"
        return f"NOT THE SAME LAW{part}: {chance}, though equal counts are not promised: {self.not_promised}"


def judge(old: Integers, new: Integers, atoms: dict[str, list[int]], not_promised: str, **about: Any) -> Replayed:
    """Compare the integers of a receipt with those of its replay; `about` as the first fields of Replayed."""
    mismatch = first_mismatch(old, new, atoms)
    smallest, worst = 1.0, ""
    if mismatch is not None and not_promised:
        keys = [key for key in old.counts if key in new.counts]
        adjusted = holm([two_sample(old.counts[key], new.counts[key]).p for key in keys])
        smallest, worst = min(zip(adjusted, (key[0] for key in keys), strict=True), default=(1.0, ""))
    return Replayed(
        compared=old.size, mismatch=mismatch, not_promised=not_promised, smallest=smallest, worst=worst, **about
    )


def campaign_of(opened: Opened) -> tuple[Campaign, Seed]:
    """The campaign of a receipt and its seed. ReceiptError (3) if the plan rebuilds to another here."""
    p = opened.predicate
    campaign = _rebuilt(opened, lambda: of_plan(p["plan"]))
    mine = {target.name: target.digest() for target in campaign.targets}
    for target in p["plan"]["targets"]:
        if target["lawSha256"] != mine[target["name"]]:
            raise _another(opened, f"the law of {target['name']} is another one here")
    if canonical.sha256(campaign.plan) != p["planSha256"]:
        raise _another(opened, "its plan rebuilds to another one here")
    return campaign, _seed(opened)


def trial_and_seed(opened: Opened) -> tuple[Trial, Seed]:
    """The trial of a receipt and its seed. ReceiptError (3) if the plan rebuilds to another here."""
    p = opened.predicate
    trial: Trial = _rebuilt(opened, lambda: trial_of(p))
    _rebuilt(opened, lambda: check_laws(trial, p))
    return trial, _seed(opened)


def _rebuilt(opened: Opened, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except (KeyError, TypeError, ValueError, AttributeError, CampaignError, VerificationError) as error:
        said = f"{type(error).__name__} {error}" if not isinstance(error, PP3Error) else str(error)
        raise _another(opened, f"its plan does not rebuild here ({said})") from None


def _another(opened: Opened, why: str) -> ReceiptError:
    stale = f"{len(opened.stale)} of its sources differ: " if opened.stale else ""
    return ReceiptError(
        f"{opened.path}: {why}; {stale}replay it with the pp3 that made it, and compare the receipts", Exit.INCONCLUSIVE
    )


def _seed(opened: Opened) -> Seed:
    said = opened.predicate["seed"]
    seed = Seed.of(opened.predicate["planSha256"], said["counter"])
    if said["rule"] != RULE or seed.value.hex() != said["sha256"]:
        raise _another(opened, "its seed follows from its plan and counter by another rule")
    return seed


def campaign_part(campaign: Campaign, wanted: str) -> list[tuple[str, int]]:
    """Name and depth of what TARGET[,DEPTH] names. CampaignError names the nearest."""
    name, _, depth = wanted.partition(",")
    parts = [part for part in parts_of(campaign) if part[0] == name and depth in ("", str(part[1]))]
    if not parts:
        known = [f"{target},{number}" for target, number in parts_of(campaign)]
        raise _no_part(wanted, known if depth else [target.name for target in campaign.targets])
    return parts


def trial_part(trial: Trial, wanted: str) -> list[str]:
    """The problem that TARGET[,DEPTH] names. CampaignError names the nearest."""
    name, _, depth = wanted.partition(",")
    found = [p.name for p in trial.problems if p.name == name and depth in ("", str(p.depth))]
    if not found:
        raise _no_part(wanted, [f"{p.name},{p.depth}" if depth else p.name for p in trial.problems])
    return found


def _no_part(wanted: str, known: list[str]) -> CampaignError:
    near = difflib.get_close_matches(wanted, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"the plan has {', '.join(known)}"
    return CampaignError(f"--slice {wanted}: no part of the plan; {hint}")
