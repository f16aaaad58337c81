"""Changes of a campaign's cells and checks, and what follows from them made to follow."""

from typing import Any

from altered import Change, Statement, edit

from pp3.harness import campaign as campaigns
from pp3.harness.verdict import conclude

REVIEWED = ("ledger", "signature", "sources")  # skipped where nothing is given
STEPS = [
    "bytes",
    "name",
    "shape",
    "plan",
    "laws",
    "kernels",
    "recompute counts",
    "recompute statistics",
    "error budget",
    "verdict",
    "non-claims",
    *REVIEWED,
]


def rejudge(statement: Statement) -> None:
    """Make everything derived follow from changed integers, as a forger would."""
    predicate = statement["predicate"]
    judgement = conclude(
        campaigns.of_plan(predicate["plan"]),
        {(cell["id"], cell["batch"]): cell["counts"] for cell in predicate["cells"]},
        {(cell["id"], cell["batch"]): cell["first"] for cell in predicate["cells"]},
        predicate["breaches"],
        predicate["paired"],
        predicate["kernels"],
        predicate["sampler"],
    )
    predicate["tests"] = [test.plain() for test in judgement.tests]
    predicate["deviations"] = [one.plain() for one in judgement.deviations]
    predicate["seedFamily"], predicate["sees"] = judgement.seed_family, judgement.sees
    predicate["verdict"], predicate["reasons"] = judgement.verdict.value, judgement.reasons
    predicate["sentence"] = judgement.sentence


def cell(statement: Statement, event: str) -> dict[str, Any]:
    """The first cell of a kind with two counted atoms or more."""
    cells: list[dict[str, Any]] = statement["predicate"]["cells"]
    return next(c for c in cells if f"/{event}/" in c["id"] and sum(n > 100 for n in c["counts"][:-1]) > 1)


def fullest(statement: Statement, event: str) -> dict[str, Any]:
    """The cell of a kind whose first atom was met most often in the first half."""
    cells: list[dict[str, Any]] = statement["predicate"]["cells"]
    return max((c for c in cells if f"/{event}/" in c["id"]), key=lambda c: c["first"][0])


def move(statement: Statement, event: str) -> None:
    """One event from the cell's fullest atom to its next, so that every sum stays."""
    counts = cell(statement, event)["counts"]
    fullest, second = sorted(range(len(counts)), key=lambda atom: -counts[atom])[:2]
    counts[fullest] -= 1
    counts[second] += 1


def in_test(field: str, to: Any) -> Change:
    """Change a field of the first check whose p-value is written with six digits."""

    def change(statement: Statement) -> None:
        tests = statement["predicate"]["tests"]
        test = next(t for t in tests if t["df"] and len(t["p"]) == 8 and t["p"][2] != "0")
        test[field] = to(test[field])

    return change


def fifth_digit(number: str) -> str:
    """0.123456 with its fifth significant digit changed."""
    return number[:6] + str((int(number[6]) + 2) % 10) + number[7:]


def add(*path: str | int, item: Any) -> Change:
    """Append to a list of the predicate; a function is given the list."""
    return edit(*path, to=lambda old: [*old, item(old) if callable(item) else item])


def stray_row(statement: Statement) -> dict[str, Any]:
    """A row that names one forbidden outcome of a real cell."""
    some = cell(statement, "token")
    return {"batch": some["batch"], "cell": some["id"], "count": 1, "outcome": 96}
