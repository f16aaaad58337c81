"""JUnit XML for CI: a suite each receipt, a case each check. It is an export, no evidence: only a receipt verifies.

The elements and attributes are those of the schema of Apache Ant's JUnit task, which the readers of Jenkins, GitLab and
GitHub's actions take too: https://github.com/windyroad/JUnit-Schema. A receipt holds no host, and no time of a check.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from pp3.harness.evidence.receipt import read
from pp3.harness.evidence.verify import verify
from pp3.harness.regression.opened import SURVEY, TRIAL, device, who
from pp3.harness.scoreboard import speaks_of
from pp3.harness.tolerance import Worth

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, 2.2
UNMEASURED = "0"  # seconds


class Result(StrEnum):
    """What became of a case: the element that says it, or none."""

    PASSED = ""
    FAILED = "failure"
    ERROR = "error"  # nothing was decided, or it does not verify
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One check."""

    group: str
    name: str
    result: Result = Result.PASSED
    type: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One receipt."""

    path: Path
    name: str
    measured: str
    properties: dict[str, str]
    sentence: str
    cases: list[Case]
    unverified: str  # why it does not verify, or ""


def suite_of(path: Path) -> Suite:
    """The cases of a receipt: that it verifies, its verdict, its checks. ReceiptError for what is no receipt."""
    content, statement = read(path)
    p = statement["predicate"]
    found = verify(path, content)
    unverified = "" if not found.failed else found.sentence
    where = "" if p["kind"] == SURVEY else device(p)
    cases = [
        Case(
            group="receipt",
            name="verifies",
            result=Result.ERROR if unverified else Result.PASSED if found.ok else Result.SKIPPED,
            type="NOT VERIFIED",
            message=found.sentence if unverified or not found.ok else "",
        ),
        Case(group="receipt", name="verdict", result=_result(p["verdict"]), type=p["verdict"], message=p["sentence"]),
        *_cases(p),
    ]
    return Suite(
        path=path,
        name=f"{p['kind']} of {who(p)}" + (f" on {where}" if where else ""),
        measured=p["run"]["startedUtc"].removesuffix("Z"),
        properties={"sha256": found.sha256, "verdict": p["verdict"], "kind": p["kind"], "device": where},
        sentence=p["sentence"],
        cases=cases,
        unverified=unverified,
    )


def document(suites: list[Suite]) -> str:
    """The XML of suites, in their order: the same text for the same receipts under the same pp3."""
    root = ET.Element("testsuites")
    for number, suite in enumerate(suites):
        counts = {result: sum(case.result is result for case in suite.cases) for result in Result}
        element = ET.SubElement(
            root,
            "testsuite",
            {
                "id": str(number),
                "package": "pp3",
                "name": _text(suite.name),
                "timestamp": _text(suite.measured),
                "hostname": "localhost",
                "tests": str(len(suite.cases)),
                "failures": str(counts[Result.FAILED]),
                "errors": str(counts[Result.ERROR]),
                "skipped": str(counts[Result.SKIPPED]),
                "time": UNMEASURED,
            },
        )
        held = ET.SubElement(element, "properties")
        for name, value in suite.properties.items():
            ET.SubElement(held, "property", {"name": name, "value": _text(value)})
        for case in suite.cases:
            _append(element, suite, case)
        ET.SubElement(element, "system-out").text = _text(suite.sentence)
        ET.SubElement(element, "system-err").text = _text(suite.unverified)
    ET.indent(root)
    body: str = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _append(suite_element: ET.Element, suite: Suite, case: Case) -> None:
    classname = f"pp3.{suite.properties['kind']}.{case.group}"
    names = {"classname": _text(classname), "name": _text(case.name), "time": UNMEASURED}
    element = ET.SubElement(suite_element, "testcase", names)
    if case.result is Result.SKIPPED:
        ET.SubElement(element, Result.SKIPPED.value, {"message": _text(case.message)})
    elif case.result is not Result.PASSED:
        said = {"message": _text(case.message), "type": _text(case.type)}
        ET.SubElement(element, case.result.value, said).text = _text(case.message)


def _cases(p: dict[str, Any]) -> Iterator[Case]:
    """What a receipt judged, one by one."""
    if p["kind"] == SURVEY:
        for row in p["samplers"]:
            word, said = row["verdict"], row["sentence"]
            yield Case(group="sampler", name=row["name"], result=_result(word), type=word, message=said)
        for name, why in p["notRun"].items():
            yield Case(group="sampler", name=name, result=Result.SKIPPED, message=f"not run: {why}")
        return
    for row in p.get("kernels", {}).get("conform", []):
        yield _exact("known-answers", row["file"], row["total"] - row["passed"], f"of {row['total']:,} fail")
    for row in p.get("kernels", {}).get("bits", []):
        yield _exact("bits", row["id"], row["mismatches"], f"of {row['rows']:,} rows differ: {row['first']}")
    for row in p.get("paired", []):
        name = f"{row['target']}/depth-{row['depth']}"
        yield _exact("paired", name, row["mismatches"], f"of {row['pairs']:,} pairs differ")
    for name, count in p.get("breaches", {}).items():
        told = p["kind"] != TRIAL or any(
            why.startswith(f"{name.partition('/')[0]}: {count:,} ") for why in p["reasons"]
        )
        yield _exact("contract", name, count if told else 0, "times broken")  # rounding may explain those of a trial
    for name, why in p.get("broken", {}).items():
        yield Case(group="contract", name=name, result=Result.FAILED, type="broken off", message=why)
    for row in p.get("exact", []):
        yield _exact("exact", row["id"], row["wrong"], f"of {row['compared']:,} are wrong")
    for row in p.get("enumerations", []):
        yield _named(p, "enumeration", str(row["id"]))
    for row in p.get("policies", []):
        yield _named(p, "bridge", str(row["survey"]["target"]))
    worth = {row["id"]: row["worth"] for row in p.get("deviations", [])}
    for test in p.get("tests", []):
        yield _checked(p, test, worth.get(test["id"], Worth.FAIL.value))


def _checked(p: dict[str, Any], test: dict[str, Any], worth: str) -> Case:
    """A statistical check: a deviation that is tolerated passes, one between the bounds is no failure and no pass."""
    group, name = test["event"], test["id"]
    if test["outcome"] == "fail" and worth != Worth.TOLERATED.value:
        result = Result.FAILED if worth == Worth.FAIL.value else Result.ERROR
        said = f"{test['forbidden']:,} outcomes of probability 0; " if test["forbidden"] else ""
        how = f"{said}p = {test['p']}, level {test['alpha']}, {test['events']:,} events"
        reason = next((why for why in p["reasons"] if speaks_of(why, name)), "")
        return Case(group=group, name=name, result=result, type=test["outcome"], message=reason or how)
    if test["outcome"] == "unresolved":
        return Case(group=group, name=name, result=Result.SKIPPED, message=test["reason"])
    return Case(group=group, name=name)


def _exact(group: str, name: str, wrong: int, what: str) -> Case:
    """An exact check: one difference fails it."""
    if not wrong:
        return Case(group=group, name=name)
    return Case(group=group, name=name, result=Result.FAILED, type="differs", message=f"{wrong:,} {what}")


def _named(p: dict[str, Any], group: str, name: str) -> Case:
    """An exact result, which fails where a reason names it."""
    said = next((why for why in p["reasons"] if why.startswith((f"{name}:", f"{name},", f"{name} "))), "")
    return Case(group=group, name=name, result=Result.FAILED if said else Result.PASSED, type="differs", message=said)


def _result(verdict: str) -> Result:
    """A verdict as a case: what is not decided is no pass."""
    failed = {"FAIL": Result.FAILED, "INVALID": Result.FAILED, "INCONCLUSIVE": Result.ERROR}
    return failed.get(verdict, Result.PASSED)


def _text(text: str) -> str:
    """A text without what XML 1.0 cannot hold."""
    return NOT_XML.sub("", text)
