"""What the page of an engine shows beside its receipt: conditions, checks, and what was compared exactly."""

from collections.abc import Mapping
from typing import Any

from pp3.harness.engine.contract import LEFT_OUT, LOST, REFUSED
from pp3.harness.engine.judge import said_of
from pp3.harness.engine.plan import TEXT, Plan
from pp3.harness.engine.tally import TIES
from pp3.harness.evidence.engine import plan_of
from pp3.harness.report.campaign import ordered
from pp3.harness.report.pictures.engine import levels_picture, ranks_picture, sees_picture

Row = dict[str, Any]


def context(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template. PP3Error, KeyError or ValueError for a plan or counts that do not fit each other."""
    plan = plan_of(predicate)
    tests, exact = predicate["tests"], predicate["exact"]
    counts = {row["id"]: row["counts"] for row in predicate["cells"]}
    of = {check.id: check.cell.condition for check in plan.checks}
    failed = sum(test["outcome"] == "fail" for test in tests)
    deciding = sum(bool(float(test["alpha"])) or test["outcome"] == "fail" for test in tests)
    wrong = sum(row["wrong"] for row in exact)
    pictures = [
        [levels_picture("levels", plan, tests), sees_picture("sees", tests)],
        [ranks_picture("ranks", plan, counts)],
    ]
    return {
        "asked": asked(plan, predicate.get("replaced")),
        "conditions": [_condition(row, [t for t in tests if of[t["id"]] == row["name"]], exact) for row in _rows(plan)],
        "exact": [
            (
                row["id"],
                "ties, which may differ" if row["id"] == TIES else said_of(row["id"]),
                row["compared"],
                row["wrong"],
            )
            for row in exact
        ],
        "figures": [
            (f"{predicate['tokens']:,}", "tokens, in answers to requests that a seed fixed"),
            (f"{failed:,} of {deciding:,}", f"checks failed, family alpha {plan.spec.alpha:g}"),
            (
                f"{float(predicate['resolution']):.3g}",
                f"off (total variation of ranks) is seen, power {plan.spec.power:g}",
            ),
            (f"{wrong:,} of {sum(row['compared'] for row in exact):,}", "exact comparisons are wrong"),
        ],
        "limits": limits(plan, tests),
        "pictures": [[picture for picture in column if picture is not None] for column in pictures],
        "tests": ordered(tests),
    }


def asked(plan: Plan, replaced: Mapping[str, int] | None) -> str:
    """How prompts were sent, and how many attempts took the place of others, of an engine that is asked again."""
    how = f"prompts as {'text' if plan.spec.prompts == TEXT else 'token ids'}"
    if replaced is None or "retries" not in plan.facts.settings:
        return how
    lost, refused = replaced[LOST], replaced[REFUSED]
    return f"{how}; {lost:,} answers did not come whole and were asked for again, {refused:,} requests were put off"


def limits(plan: Plan, tests: list[Row]) -> list[str]:
    """What could hide, in words."""
    undecided = sum(test["outcome"] == "unresolved" for test in tests)
    said = [
        f"An error of the stream's ranks below {plan.resolution:.2g} in total variation could hide.",
        "The law of the model does not depend on attention, positions or the cache: errors there do not show.",
    ]
    if withheld := plan.facts.settings.get(LEFT_OUT):
        said.append(f"No request had {withheld}: whoever ran this left it out.")
    if undecided:
        said.append(f"{undecided:,} of {len(tests):,} checks decide nothing at this number of tokens.")
    return said


def _rows(plan: Plan) -> list[Row]:
    rows: list[Row] = plan.plain["conditions"]
    return rows


def _condition(row: Row, tests: list[Row], exact: list[Row]) -> Row:
    failed = sum(test["outcome"] == "fail" for test in tests)
    failed += sum(bool(one["wrong"]) for one in exact if one["id"].startswith(f"{row['name']}/"))
    ratios = [float(test["p"]) / float(test["alpha"]) for test in tests if float(test["alpha"])]
    given = [
        ", ".join(f"{_spaced(key)} {value}" for key, value in sorted(setting.items()) if key != "name")
        for setting in row["settings"]
    ]
    more = [
        *(["without speculation"] if row["name"].endswith("/plain") else []),
        *(["seeded"] if row["seeded"] else []),
        *(["one in three hangs up"] if row["hangsUp"] else []),
        *([f"stops at {', '.join(map(str, row['stops']))}"] if row["stops"] else []),
    ]
    return {
        "asks": row["asks"],
        "checks": len(ratios),
        "failed": failed,
        "length": row["length"],
        "name": row["name"],
        "nearest": f"{min(ratios):.2g}" if ratios else "",
        "order": row["order"],
        "outcome": "fail" if failed else "pass",
        "parameters": "; ".join([" or ".join(given), *more]),
        "required": row["required"],
    }


def _spaced(name: str) -> str:
    """A name of a parameter in words."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
