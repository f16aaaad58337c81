"""Render a receipt as one self-contained HTML page: from the receipt alone, on any machine, no scripts, no requests."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2

from pp3.harness.errors import CampaignError, PP3Error
from pp3.harness.evidence.receipt import write_once
from pp3.harness.exact.pairs import excluded_rate
from pp3.harness.report import calibration, campaign, engine, exact, probe, survey, trial
from pp3.harness.report.alarm import Alarm
from pp3.harness.report.template import fill

MOST_REASONS = 4  # that are not folded
Context = Callable[[dict[str, Any]], dict[str, Any]]
PAGES: dict[str, tuple[str, Context]] = {
    "qualify": ("campaign.html", campaign.context),
    "wire": ("wire.html", campaign.context),
    "trial": ("trial.html", trial.context),
    "engine": ("engine.html", engine.context),
    "oracle": ("oracle.html", exact.oracle),
    "exhaustive": ("exhaustive.html", exact.exhaustive),
    "survey": ("survey.html", survey.context),
    "probe": ("probe.html", probe.context),
    "calibration": ("calibration.html", calibration.context),
}
BARE = "bare.html"
UNFIT = (PP3Error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, jinja2.UndefinedError)


def write_page(content: bytes, statement: dict[str, Any], path: Path, alarm: Alarm | None = None) -> Path:
    """Write the page of a receipt to a file that must not exist yet."""
    try:
        return write_once(path, page(content, statement, alarm).encode())
    except FileExistsError:
        raise CampaignError(f"{path} exists already; give another file with --out") from None


def page(content: bytes, statement: dict[str, Any], alarm: Alarm | None = None) -> str:
    """The HTML of a receipt: the same bytes for the same receipt, and the same alarm.

    What does not verify may hold anything: where pictures cannot be drawn from it, the page has none and says why.
    """
    predicate = statement["predicate"]
    template, context = PAGES[predicate["kind"]]
    values = {
        "alarm": alarm,
        "excluded_rate": excluded_rate,
        "most_reasons": MOST_REASONS,
        "p": predicate,
        "sha256": hashlib.sha256(content).hexdigest(),
        "statement": statement,
    }
    if alarm is None:
        return fill(template, values | context(predicate))
    try:
        return fill(template, values | context(predicate))
    except UNFIT as error:
        return fill(BARE, values | {"missing": f"{type(error).__name__}: {error}"})
