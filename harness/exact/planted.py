"""Planted faults: for each exact check an edit of the reference that it catches and a campaign's statistics do not.

An edit is compiled and bound where the original is looked up, and taken back afterwards; no file is touched. Its check
observes the edited reference and is held to what the unedited one must show; then the default campaign runs on the
edited reference with 1,000 pairs, the kernels' part given.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from pp3.harness import campaign, run
from pp3.harness.conform import KNOWN_ANSWERS
from pp3.harness.exact.enumeration import differences
from pp3.harness.exact.planted_checks import CHECKS
from pp3.harness.exact.planted_faults import FAULTS, Edit, Fault
from pp3.harness.samplers import reference as sampler
from pp3.harness.seeds import Seed
from pp3.harness.verdict import Verdict, conclude

INTRODUCTION = """# Faults that only exact checks catch

Each row is one edit of the reference (`harness/exact/planted_faults.py`), the exact check that catches it and what that
says, and what the default campaign, 20,000 requests of each target and 1,000 pairs, concludes from the same edited
reference. A campaign fails at a smallest p / level of 1 or below; `pp3 exhaustive --planted` made this page.

A check here is a part of what `pp3 exhaustive` and `pp3 oracle` run (`harness/exact/planted_checks.py`). The bridges of
acceptance, residual and bonus take these integers from the edited verifier, where `pp3 oracle` takes the formulas that
the edges hold the verifier to.

"""
PAIRS = 1000
SEED = Seed(b"pp3 campaign of planted faults..")
KERNELS: dict[str, Any] = {
    "bits": [{"id": "given", "rows": 1, "failedRows": 0, "mismatches": 0, "first": ""}],
    "conform": [{"file": name, "passed": 1, "total": 1, "sha256": ""} for name in KNOWN_ANSWERS],
}
WHO = {"name": "planted", "version": "0", "backend": "reference"}
DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRow:
    """What became of one fault."""

    fault: Fault
    message: str  # the first thing the check said; "" if it did not catch it
    verdict: Verdict  # of the default campaign
    ratio: float  # the smallest p-value of the campaign's checks over its level: 1 or below would fail


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The reference with a fault's edits. ValueError if a text is not there exactly once."""
    with ExitStack() as stack:
        stack.callback(sampler._tables.cache_clear)
        for edit in fault.edits:
            edited = _edited(edit)
            for owner in (edit.owner, *edit.importers):
                stack.enter_context(patch.object(owner, edit.function, edited))
        sampler._tables.cache_clear()
        yield


def _edited(edit: Edit) -> Any:
    original = getattr(edit.owner, edit.function)
    source = textwrap.dedent(inspect.getsource(original))
    if source.count(edit.old) != 1:
        raise ValueError(f"{edit.function} holds {edit.old!r} {source.count(edit.old)} times; want once")
    made: dict[str, Any] = {}
    exec(source.replace(edit.old, edit.new), original.__globals__, made)
    return made[edit.function]


def differs(fault: Fault) -> list[str]:
    """What a fault's check says of it."""
    check = CHECKS[fault.check]
    expected = check.expect()
    with planted(fault):
        return differences(check.observe(), expected)


def row(fault: Fault) -> PlantedRow:
    """Plant one fault; run its check, and the default campaign."""
    said = differs(fault)
    chosen, under_test = campaign.of_document({"paired": PAIRS}, fault.id), sampler.ReferenceSampler()
    measured = run.Measured(sampler=under_test.describe())
    with planted(fault):
        run._campaign(chosen, SEED, under_test, measured, lambda stage, done, total: None)
    judged = conclude(chosen, measured.counts, measured.first, measured.breaches, measured.pairs, KERNELS, WHO)
    return PlantedRow(
        fault=fault,
        message=DIGEST.sub(r"\1", said[0]) if said else "",
        verdict=judged.verdict,
        ratio=min(test.p / test.alpha for test in judged.tests if test.decides),
    )


def rows() -> list[PlantedRow]:
    """Every fault in turn; three quarters of a minute on one core."""
    return [row(fault) for fault in FAULTS]


def table(found: list[PlantedRow]) -> str:
    """The rows in Markdown."""
    head = ("fault", "what is wrong", "check", "what the check says", "campaign", "smallest p / level")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in found:
        said = f"`{one.message}`" if one.message else "not caught"
        cells = (one.fault.id, one.fault.wrong, one.fault.check, said, one.verdict.value, f"{one.ratio:,.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page(found: list[PlantedRow]) -> str:
    """docs/exact-faults.md."""
    return INTRODUCTION + table(found)
