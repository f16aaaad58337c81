"""A check's own figures, from a receipt that verifies."""

from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError, Exit, VerificationError
from pp3.harness.explain import table
from pp3.harness.explain.entry import Entry, Part
from pp3.harness.regression.opened import ENGINE, open_receipt

Pairs = list[tuple[str, str]]
MOST = 8  # checks of one kind that are shown, those nearest to their level first
STATISTIC = {"g": "G", "binomial": "hits' G", "repeat": "repeats", "rare": "least tail", "fit": "G"}


def of_receipt(path: Path, name: str, entry: Entry) -> tuple[Entry, Pairs]:
    """What a receipt says of a check, or of a kind of check; with the entry, which an engine's receipt may change.

    ReceiptError for what is no receipt, VerificationError (1; 3 where other sources made it) for one that does not
    verify here, CampaignError for one without such a check.
    """
    opened = open_receipt(path)
    if opened.unverified:
        raise VerificationError(f"{path}: {opened.unverified}", Exit.INCONCLUSIVE)
    engine = opened.kind == ENGINE
    entry = table.find(name, engine) or entry
    rows = _tests(opened.predicate, name, entry) or _compared(opened.predicate, name, entry)
    if not rows:
        tests = {table.find(test["id"], engine) for test in opened.predicate.get("tests", [])}
        has = ", ".join(one.name for one in table.ENTRIES if one in tests) or "no statistics"
        raise CampaignError(f"{path.name} is of kind {opened.kind} and has no check {name}; it has {has}")
    return entry, [("receipt", f"{opened.verified.sha256[:16]}..., verified: {opened.predicate['verdict']}"), *rows]


def _tests(predicate: dict[str, Any], name: str, entry: Entry) -> Pairs:
    """Statistical checks: the one of this id, or those of the kind."""
    if (predicate["kind"] == ENGINE) != (entry.part is Part.ENGINE):
        return []
    kind = [test for test in predicate.get("tests", []) if test["event"] == entry.word]
    one = [test for test in kind if test["id"] == name]
    if one:
        return _one(one[0])
    if not kind:
        return []
    ranked = sorted(kind, key=lambda test: _strength(test))
    failed = sum(test["outcome"] == "fail" for test in kind)
    able = sum(float(test["alpha"]) > 0 for test in kind)
    rows = [("checks", f"{len(kind):,} in all, {able:,} can decide, {failed:,} deviate; nearest to their level first")]
    return [*rows, *((test["id"], _line(test)) for test in ranked[:MOST])]


def _strength(test: dict[str, Any]) -> tuple[bool, float]:
    level = float(test["alpha"])
    return not test["forbidden"], float(test["p"]) / level if level else float("inf")


def _line(test: dict[str, Any]) -> str:
    bad = f", {test['forbidden']:,} forbidden" if test["forbidden"] else ""
    if not float(test["alpha"]):
        return f"n = {test['events']:,}{bad}: {test['reason'] or test['outcome']}"
    return (
        f"n = {test['events']:,}, p = {float(test['p']):.3g}, level {float(test['alpha']):.2g}{bad}: {test['outcome']}"
    )


def _one(test: dict[str, Any]) -> Pairs:
    """Every figure of one check."""
    statistic = STATISTIC[test.get("method", "g")]
    found = [
        ("check", test["id"]),
        ("n", f"{test['events']:,} events, {test['forbidden']:,} of them forbidden"),
        ("found", f"{statistic} = {test['g']} on {test['df']} df, p = {test['p']}; level {test['alpha']}"),
        ("sees", f"{test['unit']} of {test['detectable']}, at the planned size"),
        ("not excluded", f"{test['unit']} up to {test['excluded']}"),
        ("outcome", f"{test['outcome']}{': ' + test['reason'] if test['reason'] else ''}"),
    ]
    return [*found, ("worst", test["worst"])] if test.get("worst") else found


def _compared(predicate: dict[str, Any], name: str, entry: Entry) -> Pairs:
    """Exact comparisons, by where a receipt keeps them."""
    word, kernels = entry.word, predicate.get("kernels", {})
    if entry.part is Part.PROBE:
        return []
    if word == "pairs" and predicate.get("paired"):
        compared = sum(row["pairs"] for row in predicate["paired"])
        return [("found", f"{sum(row['mismatches'] for row in predicate['paired']):,} of {compared:,} pairs differ")]
    if word == "forbidden" and "tests" in predicate:
        return [
            ("found", f"{sum(test['forbidden'] for test in predicate['tests']):,} forbidden outcomes in all checks")
        ]
    if word == "breach":
        seen = ", ".join(f"{count:,} x {kind}" for kind, count in predicate.get("breaches", {}).items() if count)
        return [("found", seen or "no breach")] if "breaches" in predicate else []
    if word == "bits":
        rows = [row for row in kernels.get("bits", []) if name in (word, row["id"])]
        differ = sum(row["mismatches"] for row in rows)
        return [("found", f"{differ:,} of {sum(row['rows'] for row in rows):,} rows differ")] if rows else []
    if word == "answers":
        rows = kernels.get("conform", [])
        return [(row["file"], f"{row['passed']:,} of {row['total']:,} passed") for row in rows]
    if entry.part is Part.EXACT or word == "pairs":
        rows = [row for row in predicate.get("enumerations", []) if row["id"] == word]
        verdict = predicate["verdict"]
        return [("found", f"{row['compared']:,} compared; the receipt is {verdict}: {row['claim']}") for row in rows]
    if entry.part is Part.ANSWERS:
        mine = [row for row in predicate.get("exact", []) if table.find(row["id"], engine=True) is entry]
        rows = [row for row in mine if name in (row["id"], entry.name, entry.word, *entry.aliases)]
        return [(row["id"], f"{row['wrong']:,} of {row['compared']:,} are wrong") for row in rows]
    return _path(predicate.get("path"), word)


def _path(path: dict[str, Any] | None, word: str) -> Pairs:
    """What a campaign over the wire lost on the way."""
    if not path or word not in ("losses", "altered"):
        return []
    if word == "altered":
        return [("found", f"{path['altered']:,} of {path['rows']:,} proposals arrived as others than were sent")]
    injected = ", ".join(f"{count:,} {kind}" for kind, count in path["injected"].items())
    counted = ", ".join(f"{count:,} {kind}" for kind, count in path["counted"].items() if count)
    return [("injected", injected or "none"), ("seen", counted or "none")]
