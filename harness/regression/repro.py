"""`pp3 repro`: a self-contained script that shows one failed check of a receipt; it is tried before it is written."""

import contextlib
import difflib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from pp3.harness.battery import Counts
from pp3.harness.campaign import of_plan
from pp3.harness.design import Check, Method, design
from pp3.harness.errors import CampaignError, Exit, PP3Error, VerificationError
from pp3.harness.evidence.receipt import write_once
from pp3.harness.evidence.trial import as_run
from pp3.harness.qualify import shown
from pp3.harness.regression import script
from pp3.harness.regression.offender import first_offender
from pp3.harness.regression.opened import TRIAL, Opened, open_sampled
from pp3.harness.seeds import Seed
from pp3.harness.verdict import merge


def run_command(path: Path, check: str, out: Path | None) -> int:
    """Everything the command does; its exit code. Arguments as `pp3 repro --help`."""
    opened = open_sampled(path, "pp3 repro")
    if opened.unverified:
        raise VerificationError(f"{path}: {opened.unverified}", Exit.INCONCLUSIVE)
    test = failed(opened, check)
    target = out or Path(f"repro-{re.sub(r'[^A-Za-z0-9.-]+', '-', check)}.py")
    text = repro(opened, test)
    try:
        write_once(target, text.encode())
    except FileExistsError:
        raise CampaignError(f"{target} exists already; give another file with --out") from None
    click.echo(f"{shown(target)}: {len(text.splitlines())} lines; exits 1 while {check} fails")
    return Exit.OK


def failed(opened: Opened, check: str) -> dict[str, Any]:
    """The row of a check that failed. CampaignError names the nearest, and those that failed."""
    tests = {test["id"]: test for test in opened.predicate["tests"]}
    bad = [name for name, test in tests.items() if test["outcome"] == "fail"]
    those = f"those that fail: {', '.join(bad[:5])}{' ...' if len(bad) > 5 else ''}" if bad else "no check fails"
    if not check:
        raise CampaignError(f"say which check: --check ID; in this receipt {those}")
    if check not in tests:
        near = difflib.get_close_matches(check, bad or list(tests), 1) or difflib.get_close_matches(check, tests, 1)
        hint = f"did you mean {near[0]}?" if near else f"in this receipt {those}"
        raise CampaignError(f"--check {check}: no check of {opened.path.name}; {hint}")
    if check not in bad:
        raise CampaignError(f"--check {check}: its outcome is {tests[check]['outcome']}; in this receipt {those}")
    found: dict[str, Any] = tests[check]
    return found


def repro(opened: Opened, test: dict[str, Any]) -> str:
    """The script of a failed check. PP3Error (70) if it does not show the failure."""
    ran = opened.predicate
    about = [
        f"PP3 receipt sha256 {opened.verified.sha256}",
        f"{opened.judged}, measured {ran['run']['startedUtc']}, counter {ran['seed']['counter']}",
        f"check {test['id']}: G {test['g']} on {test['df']} df, p {test['p']}, level {test['alpha']}, "
        f"{test['forbidden']} forbidden outcomes. Exit 1 while it fails.",
    ]
    if test["forbidden"]:
        tried = (text for text in _of_request(opened, test, about) if _code(text) == Exit.NEGATIVE)
        return next(tried, "") or script.forbidden(about, _strays(opened, test))
    check, counts = _planned(opened, test["id"])
    text = statistic(check, counts, test, about)
    if _code(text) != Exit.NEGATIVE:
        raise PP3Error(f"the script of {test['id']} does not show its failure; please report this receipt")
    return text


def statistic(check: Check, counts: Counts, test: dict[str, Any], about: list[str]) -> str:
    """The script of a check that a statistic failed."""
    level = test["alpha"]
    match check.method:
        case Method.REPEAT:
            stretches, again = counts[check.single[0].id][:2]
            return script.repeats(about, level, stretches + again, again)
        case Method.RARE:
            name, _, outcome = test["worst"].rpartition(": outcome ")
            cell = next(cell for cell in check.single if cell.id == name)
            at, found = cell.atoms.tolist().index(int(outcome)), counts[name][:-1]
            looked_at = sum(len(cell.atoms) for cell in check.single)
            about = [*about, f"the smallest tail is that of {test['worst']}"]
            return script.one_outcome(about, level, looked_at, cell.shares[at], sum(cell.shares), found[at], sum(found))
        case Method.BINOMIAL:
            [[(share_of_other, others), (share, got)]] = groups(check, counts)
            return script.one_outcome(about, level, 1, share, share + share_of_other, got, got + others)
    names = ", ".join(pooled.cell.id for pooled in check.cells[:3]) + (" ..." if len(check.cells) > 3 else "")
    write = script.fit if check.method is Method.FIT else script.deviation
    return write([*about, f"cells: {names}"], level, groups(check, counts))


def groups(check: Check, counts: Counts) -> script.Table:
    """Integer share of the law, and events, of each group of each cell and stratum of a check."""
    found: script.Table = []
    for pooled in check.cells:
        shares, seen = [0] * len(pooled.probabilities), [0] * len(pooled.probabilities)
        for group, share, count in zip(pooled.groups, pooled.cell.shares, counts[pooled.cell.id][:-1], strict=True):
            if group >= 0:
                shares[group] += share
                seen[group] += count
        for stratum in np.unique(pooled.strata):
            found.append([(shares[group], seen[group]) for group in np.flatnonzero(pooled.strata == stratum)])
    return found


def _planned(opened: Opened, name: str) -> tuple[Check, Counts]:
    """A check as the plan has it, and the counts that it judges."""
    p = opened.predicate
    if opened.kind == TRIAL:
        checks, counts = as_run(p).checks, {row["id"]: row["counts"] for row in p["cells"]}
    else:
        checks = design(of_plan(p["plan"]))
        counts = merge({(row["id"], row["batch"]): row["counts"] for row in p["cells"]})
    return next(check for check in checks if check.id == name), counts


def _strays(opened: Opened, test: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Forbidden outcomes of a check: cell, outcome, count over all sizes of launches."""
    found: dict[tuple[str, int], int] = {}
    for stray in _rows(opened, test):
        key = stray["cell"], stray["outcome"]
        found[key] = found.get(key, 0) + stray["count"]
    return [(cell, outcome, count) for (cell, outcome), count in found.items()]


def _rows(opened: Opened, test: dict[str, Any]) -> list[dict[str, Any]]:
    counted = _planned(opened, test["id"])[0].counted
    return [stray for stray in opened.predicate["strays"] if stray["cell"] in counted]


def _of_request(opened: Opened, test: dict[str, Any], about: list[str]) -> Iterator[str]:
    """A script of each step of the first request with a forbidden outcome; none if the reference here has none."""
    if opened.kind == TRIAL:
        return
    p = opened.predicate
    stray = _rows(opened, test)[0]
    seed = Seed.of(p["planSha256"], p["seed"]["counter"])
    found = first_offender(of_plan(p["plan"]), seed, stray["cell"], stray["batch"], stray["outcome"])
    if found is not None:
        where = f"request {found.request}, the first that comes to outcome {stray['outcome']} of {stray['cell']}"
        yield from script.of_request([*about, f"{where}, which its law forbids"], found)


def _code(text: str) -> int:
    """Run a script here, its output aside; its exit code."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(text, "repro", "exec"), {"__name__": "repro"})
        except SystemExit as end:
            return int(end.code or 0)
    return 0
