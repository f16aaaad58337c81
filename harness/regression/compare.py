"""Compare two receipts of one kind: what differs, whether they may be compared, and what became worse."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pp3.harness.design import check_id
from pp3.harness.errors import Exit, ReceiptError
from pp3.harness.regression.checks import Change, CheckRow, check_rows, engine_rows, exact_rows, worse_verdict
from pp3.harness.regression.differences import Difference, differences, laws, not_correctness, other_laws
from pp3.harness.regression.equality import not_promised
from pp3.harness.regression.homogeneity import holm, two_sample
from pp3.harness.regression.integers import Mismatch, first_mismatch, of_predicate
from pp3.harness.regression.opened import CAMPAIGN, ENGINE, TRIAL, WIRE, Opened, cells_of
from pp3.harness.regression.timings import Ratio, not_timing, ratios

ALPHA = 1e-5  # of all two-sample tests of a comparison together


class Mark(StrEnum):
    """What the counts of one cell say."""

    EQUAL = "="
    SAME = "~"  # no evidence of a difference
    DIFFERS = "!"
    VANISHED = "-"
    ADDED = "+"
    OTHER_LAW = "?"  # the target of this name has another law there


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """One cell of both receipts."""

    id: str
    batch: int
    check: str
    outcome: str  # of its check, "old -> new" if it changed
    mark: Mark
    g: float = 0.0
    df: int = 0
    p: float = 1.0
    holm: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that a comparison found."""

    verdicts: tuple[str, str]
    differences: list[Difference]
    not_correctness: str  # why they cannot be compared for correctness, or ""
    not_timing: str  # likewise
    same_seed: bool
    not_equal: str = ""  # why equal counts are not promised though plan and seed are the same, or ""
    mismatch: Mismatch | None = None  # the first where counts must be equal
    cells: list[CellRow] = field(default_factory=list)
    checks: list[CheckRow] = field(default_factory=list)
    timings: list[Ratio] = field(default_factory=list)
    regressions: list[str] = field(default_factory=list)

    @property
    def weaker(self) -> list[CheckRow]:
        """Checks that see less than they did."""
        return [row for row in self.checks if row.change is Change.WEAKER]

    @property
    def exit(self) -> Exit:
        """1 for a regression, else 3 if they are incomparable, else 0."""
        if self.regressions:
            return Exit.NEGATIVE
        return Exit.INCONCLUSIVE if self.not_correctness else Exit.OK

    @property
    def sentence(self) -> str:
        """The conclusion."""
        if self.regressions:
            more = f" (and {len(self.regressions) - 1} more)" if len(self.regressions) > 1 else ""
            return f"REGRESSION: {self.regressions[0]}{more}"
        if self.not_correctness:
            return f"INCOMPARABLE: {self.not_correctness}"
        if self.weaker:
            return (
                f"WEAKER: no regression found, and {len(self.weaker)} checks of NEW see less: {self.weaker[0].sentence}"
            )
        same = self.same_seed and not self.not_equal and self.mismatch is None
        equal = "; plan and seed are the same, and so is every count" if same else ""
        return f"NO REGRESSION: nothing is worse{equal}"


def compare(old: Opened, new: Opened, alpha: float = ALPHA) -> Comparison:
    """Compare two receipts; alpha is of all their two-sample tests. ReceiptError (3) for two of different kinds."""
    if old.kind != new.kind:
        raise ReceiptError(
            f"{old.path} is of kind {old.kind}, {new.path} of kind {new.kind}; give two of one kind", Exit.INCONCLUSIVE
        )
    if old.kind == "probe":
        raise ReceiptError(f"{old.path} is of kind probe: times compare within one run alone", Exit.INCONCLUSIVE)
    if old.kind == "calibration":
        raise ReceiptError(f"{old.path} is of kind calibration: read the two beside each other", Exit.INCONCLUSIVE)
    one, other = old.predicate, new.predicate
    refused, untimed = not_correctness(old, new), not_timing(old, new)
    verified = not (old.unverified or new.unverified)
    counted = verified and old.kind in (CAMPAIGN, TRIAL, WIRE)
    same_seed = "seed" in one and one["seed"]["sha256"] == other["seed"]["sha256"]
    not_equal = not_promised(one, other) if same_seed and counted else ""
    if same_seed and old.kind == ENGINE:
        not_equal = "an engine draws its own numbers"
    cells: list[CellRow] = []
    checks: list[CheckRow] = []
    mismatch = None
    if counted:
        checks = check_rows(one, other, other_laws(one, other))
        cells = _cell_rows(one, other, checks, alpha)
        if same_seed and not not_equal:
            mismatch = first_mismatch(of_predicate(one), of_predicate(other), outcomes(one))
    elif old.kind == ENGINE:
        checks = [] if refused else engine_rows(one, other)
    elif verified:
        checks = exact_rows(one, other)
    verdicts = (one["verdict"], other["verdict"])
    apart = counted and not laws(one).keys() & laws(other).keys()
    return Comparison(
        verdicts=verdicts,
        differences=differences(old, new),
        not_correctness=refused,
        not_timing=untimed,
        same_seed=same_seed,
        not_equal=not_equal,
        mismatch=mismatch,
        cells=cells,
        checks=checks,
        timings=[] if untimed else ratios(one["timings"], other["timings"]),
        regressions=_regressions(verdicts, refused, mismatch, checks, cells) if verified and not apart else [],
    )


def outcomes(predicate: dict[str, Any]) -> dict[str, list[int]]:
    """What the counts of each cell stand for, in order."""
    return {name: cell.atoms.tolist() for name, cell in cells_of(predicate).items()}


def _cell_rows(old: dict[str, Any], new: dict[str, Any], checks: list[CheckRow], alpha: float) -> list[CellRow]:
    """Every cell of either receipt: the two-sample test where both hold it under one law."""
    one, other = of_predicate(old).counts, of_predicate(new).counts
    planned = cells_of(new) | cells_of(old)
    changed, of_check = other_laws(old, new), {row.id: row for row in checks}
    shared = [key for key in one if key in other and planned[key[0]].target not in changed]
    tests = {key: two_sample(one[key], other[key]) for key in shared}
    adjusted = dict(zip(shared, holm([tests[key].p for key in shared]), strict=True))
    rows = []
    for key in [*one, *(key for key in other if key not in one)]:
        check = check_id(planned[key[0]])
        judged = of_check.get(check)
        said = "" if judged is None else judged.old if judged.old == judged.new else f"{judged.old} -> {judged.new}"
        row = CellRow(id=key[0], batch=key[1], check=check, outcome=said, mark=Mark.OTHER_LAW)
        if planned[key[0]].target not in changed and (key not in one or key not in other):
            row = replace(row, mark=Mark.VANISHED if key in one else Mark.ADDED)
        elif key in tests:
            test = tests[key]
            mark = Mark.EQUAL if one[key] == other[key] else Mark.DIFFERS if adjusted[key] <= alpha else Mark.SAME
            row = replace(row, mark=mark, g=test.g, df=test.df, p=test.p, holm=adjusted[key])
        rows.append(row)
    return rows


def _regressions(
    verdicts: tuple[str, str], refused: str, mismatch: Mismatch | None, checks: list[CheckRow], cells: list[CellRow]
) -> list[str]:
    """Everything that is worse, the gravest first; of the targets that kept their laws, if any did not."""
    better = worse_verdict(*reversed(verdicts))  # a sampler that was mended gives other counts
    unequal = "plan and seed are the same, the counts are not"
    found = [f"{unequal}: {mismatch.sentence}"] if mismatch and not better else []
    found += [f"the verdict was {verdicts[0]} and is {verdicts[1]}"] if worse_verdict(*verdicts) and not refused else []
    found += [row.sentence for row in checks if row.change is Change.WORSE]
    found += [row.sentence for row in checks if row.change is Change.VANISHED]
    gone = [row for row in cells if row.mark is Mark.VANISHED]
    found += [f"{len(gone)} cells are not in NEW: {gone[0].id} at batch {gone[0].batch}"] if gone else []
    mended = {row.id for row in checks if row.change is Change.BETTER}
    found += [
        f"{row.id}: its counts come from another law: G = {row.g:.3g} on {row.df} df, Holm p = {row.holm:.2g}"
        for row in cells
        if row.mark is Mark.DIFFERS and row.check not in mended
    ]
    return found
