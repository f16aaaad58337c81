"""What became of each check from one receipt to the next: its outcome, and how small an effect it sees."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pp3.harness.battery import number
from pp3.harness.design import Check, design
from pp3.harness.power import detectable
from pp3.harness.regression.opened import ENGINE, SURVEY, TRIAL

UNRESOLVED = "unresolved"
ORDER = ("certain", "pass", UNRESOLVED, "fail")  # each worse than the one before
VERDICTS = ("PASS", "SURVEYED", "TOLERATED", "INCONCLUSIVE", "FAIL", "INVALID")  # likewise
DIGITS = 1e-5  # relative, within which two numbers of six digits are the same


class Change(StrEnum):
    """From OLD to NEW."""

    SAME = "same"
    WORSE = "worse"
    BETTER = "better"
    WEAKER = "weaker"  # it passes still and sees only larger effects, or can decide nothing any more
    VANISHED = "vanished"
    ADDED = "added"
    OTHER_LAW = "another law"  # its target's: no outcome is worse or better


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One check of both receipts; "" where one lacks it."""

    id: str
    old: str
    new: str
    change: Change
    sees_old: str = ""  # the smallest effect it sees, at the power of OLD
    sees_new: str = ""
    unit: str = ""

    @property
    def sentence(self) -> str:
        """What changed."""
        if self.change is Change.WEAKER:
            return f"{self.id} sees {self.unit} {self.sees_old}, then {self.sees_new or 'nothing'}"
        if self.change in (Change.VANISHED, Change.ADDED):
            return f"{self.id} {'is not in NEW' if self.change is Change.VANISHED else 'is only in NEW'}"
        return f"{self.id}: {self.old}, then {self.new}"


def check_rows(old: dict[str, Any], new: dict[str, Any], changed: Collection[str]) -> list[CheckRow]:
    """Every check of two campaigns or trials, in the order of OLD; `changed` are targets whose laws are others."""
    power = float(old["plan"]["power"])
    one = {test["id"]: (test, test["detectable"]) for test in old["tests"]}
    other = {test["id"]: (test, test["detectable"]) for test in new["tests"]}
    if float(new["plan"]["power"]) != power:  # sizes of one power only can be compared
        sizes = _sizes_at(new, power)
        other = {name: (test, sizes[name]) for name, (test, _) in other.items()}
    rows = []
    for name in [*one, *(name for name in other if name not in one)]:
        of_other_law = bool(changed) and (name.partition("/")[0] in changed or "/" not in name)
        if name not in one or name not in other:
            row = _alone(name, name in one, (one.get(name) or other[name])[0]["outcome"])
            rows.append(replace(row, change=Change.OTHER_LAW) if of_other_law else row)
            continue
        (before, saw), (after, sees) = one[name], other[name]
        change = _change(before["outcome"], after["outcome"], ORDER)
        decided, decides = float(before["alpha"]) > 0, float(after["alpha"]) > 0
        if change is Change.SAME and decided and decides and float(sees) > float(saw) * (1 + DIGITS):
            change = Change.WEAKER
        if change is Change.WORSE and after["outcome"] == UNRESOLVED:
            change = Change.WEAKER  # where a PASS needs it, the verdict says so
        change = Change.OTHER_LAW if of_other_law else change
        rows.append(
            CheckRow(
                id=name,
                old=before["outcome"],
                new=after["outcome"],
                change=change,
                sees_old=saw if decided else "",
                sees_new=sees if decides else "",
                unit=before["unit"],
            )
        )
    return rows


def engine_rows(old: dict[str, Any], new: dict[str, Any]) -> list[CheckRow]:
    """Every check of two engines on one model: those of a level, then those of exact comparisons."""
    rows = check_rows(old, new, ())
    one, other = ({row["id"]: "fail" if row["wrong"] else "pass" for row in p["exact"]} for p in (old, new))
    for name in [*one, *(name for name in other if name not in one)]:
        if name not in one or name not in other:
            rows.append(_alone(name, name in one, one.get(name) or other[name]))
            continue
        change = _change(one[name], other[name], ORDER)
        rows.append(CheckRow(id=name, old=one[name], new=other[name], change=change))
    return rows


def exact_rows(old: dict[str, Any], new: dict[str, Any]) -> list[CheckRow]:
    """Enumerations by how much they compared, policies by whether they are there, samplers of a survey by verdict."""
    if old["kind"] == SURVEY:
        one, other = ({row["name"]: row["verdict"] for row in p["samplers"]} for p in (old, new))
        return [
            _alone(name, name in one, one.get(name) or other[name])
            if name not in one or name not in other
            else CheckRow(id=name, old=one[name], new=other[name], change=_change(one[name], other[name], VERDICTS))
            for name in [*one, *(name for name in other if name not in one)]
        ]
    sizes = [_sizes(p) for p in (old, new)]
    rows = []
    for name in [*sizes[0], *(name for name in sizes[1] if name not in sizes[0])]:
        if name not in sizes[0] or name not in sizes[1]:
            rows.append(_alone(name, name in sizes[0], "compared"))
            continue
        before, after = sizes[0][name], sizes[1][name]
        change = Change.WEAKER if after < before else Change.SAME
        rows.append(
            CheckRow(
                id=name,
                old="compared",
                new="compared",
                change=change,
                sees_old=f"{before:,}",
                sees_new=f"{after:,}",
                unit="integers compared:",
            )
        )
    return rows


def _sizes(predicate: dict[str, Any]) -> dict[str, int]:
    """How many integers each enumeration compared; one of each policy, whose rounds follow from its name."""
    if "enumerations" in predicate:
        return {row["id"]: int(row["compared"]) for row in predicate["enumerations"]}
    return {str(row["survey"]["target"]): 1 for row in predicate["policies"]}


def _alone(name: str, old: bool, outcome: str) -> CheckRow:
    return CheckRow(
        id=name,
        old=outcome if old else "",
        new="" if old else outcome,
        change=Change.VANISHED if old else Change.ADDED,
    )


def _change(old: str, new: str, order: Sequence[str]) -> Change:
    """Worse or better by an order of outcomes."""
    before, after = order.index(old), order.index(new)
    return Change.SAME if before == after else Change.WORSE if after > before else Change.BETTER


def worse_verdict(old: str, new: str) -> bool:
    """Whether a receipt's verdict became worse."""
    return _change(old, new, VERDICTS) is Change.WORSE


def _sizes_at(predicate: dict[str, Any], power: float) -> dict[str, str]:
    """The smallest effect that every check of a receipt's plan sees with another power than its own."""
    if predicate["kind"] == ENGINE:
        from pp3.harness.engine.plan import of_plan, seen

        return {check.id: number(seen(check, power)) for check in of_plan(predicate["plan"]).checks}
    return {check.id: number(detectable(check, power).size) for check in _planned(predicate)}


def _planned(predicate: dict[str, Any]) -> list[Check]:
    """The checks of a receipt's plan."""
    if predicate["kind"] == TRIAL:
        from pp3.harness.evidence.trial import as_run

        return as_run(predicate).checks
    from pp3.harness.transport.wire_plan import of_any_plan

    return design(of_any_plan(predicate["plan"]))
