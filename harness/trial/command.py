"""`pp3 qualify --sampler NAME`: one trial in a process of its own, its receipt, its page, one sentence."""

import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness import scoreboard, terminal
from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.evidence import receipt, store
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.progress import Bar
from pp3.harness.qualify import CODES, page_of, where_it_lies
from pp3.harness.samplers import registry
from pp3.harness.trial import parent
from pp3.harness.trial.judge import TrialJudgement
from pp3.harness.trial.plan import Progress, TrialSpec
from pp3.harness.trial.spread import Slots

MOST_JOBS = 64
MOST_HINTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One trial, judged and written."""

    found: parent.Found
    judged: TrialJudgement
    counter: int
    receipt: Path
    page: Path | None
    seconds: float


def run_command(
    spec: TrialSpec,
    given: bool,
    image: Path | None,
    device: str,
    counter: int | None,
    out: Path | None,
    as_json: bool,
    jobs: int = 1,
) -> int:
    """Everything the command does; its exit code. `given`: the requests are the user's, not to be raised."""
    check_jobs(jobs)
    store.check_counter(counter)
    known(spec.sampler, device)
    folders = store.open_store(out)
    number, how = store.claim_counter(folders, counter)
    with Bar() as bar:
        ran = run_one(spec, given, image, device, number, how, folders, bar.update, jobs=jobs)
    if as_json:
        click.echo(msgspec.json.encode(plain(ran)).decode())
    else:
        for line in lines(ran):
            click.echo(line)
    return CODES[ran.judged.verdict]


def check_jobs(jobs: int) -> None:
    """CampaignError for a number of processes that cannot be."""
    if not 1 <= jobs <= MOST_JOBS:
        raise CampaignError(f"--jobs {jobs}: it must be from 1 to {MOST_JOBS}")


def known(sampler: str, device: str) -> None:
    """Raise for a sampler that is none or that cannot run here, before anything is written."""
    entry = registry.find(sampler)
    where, _, _ = entry.target.partition(":")
    if where.endswith(".py") and not Path(where).is_file():
        raise CampaignError(f"sampler {sampler}: {where}: no such file")
    reason = registry.missing(replace(entry, needs=("torch", *entry.needs), image=""), device != "cpu" and gpu(entry))
    if reason:
        raise PP3Error(f"sampler {sampler}: {reason}", Exit.UNAVAILABLE)


def gpu(entry: registry.Entry) -> bool:
    """Whether a GPU is there, for a sampler that needs one; torch is not asked for any other."""
    from pp3.harness.backends import cuda_available

    return entry.gpu and cuda_available()


def run_one(
    spec: TrialSpec,
    given: bool,
    image: Path | None,
    device: str,
    counter: int,
    chosen: str,
    folders: store.Store,
    progress: Progress,
    paged: bool = True,
    stop: threading.Event | None = None,
    jobs: int = 1,
    slots: Slots | None = None,
    most: int = 0,
) -> Ran:
    """Run, judge and write one trial; with its page, unless a survey has one for all. The last four as parent.run."""
    started, clock = datetime.now(UTC), time.perf_counter()
    found = parent.run(spec, given, image, device, counter, progress, stop, jobs, slots, most)
    judged = trial_receipt.judge(found)
    statement = trial_receipt.build(found, counter, chosen, started, judged)
    written = receipt.write(statement, folders.receipts)
    page = page_of(statement, written, folders.reports) if paged else None
    return Ran(
        found=found,
        judged=judged,
        counter=counter,
        receipt=written,
        page=page,
        seconds=time.perf_counter() - clock,
    )


def plain(ran: Ran) -> dict[str, Any]:
    """The result as one JSON object."""
    return {
        "verdict": ran.judged.verdict.value,
        "sentence": ran.judged.sentence,
        "reasons": ran.judged.reasons,
        "resolution": ran.judged.resolution,
        "receipt": str(ran.receipt),
        "report": str(ran.page) if ran.page else None,
        "requests": ran.found.measured.requests,
        "counter": ran.counter,
        "seconds": round(ran.seconds, 3),
        "stages": {name: round(spent, 3) for name, spent in ran.found.measured.seconds.items()},
    }


def lines(ran: Ran) -> list[str]:
    """What is said on the terminal."""
    judged, left = ran.judged, ran.found.trial.left_out
    scores = scoreboard.Scores(
        verdict=judged.verdict,
        reasons=judged.reasons,
        tests=judged.tests,
        off={name: f"{effect.tv:.2g}" for name, effect in judged.effects.items()},
        furthest=judged.effects,
    )
    return [
        *terminal.sentence(judged.sentence),
        *scoreboard.lines(scores),
        "",
        *(line for hint in judged.hints[:MOST_HINTS] for line in terminal.labelled("about", hint)),
        *(terminal.labelled("not applicable", f"{len(left)}: {_grouped(left)}") if left else []),
        *where_it_lies(ran.receipt, ran.page, ran.seconds, ran.counter),
    ]


def _grouped(left: dict[str, str]) -> str:
    """Reasons with how many targets each keeps out."""
    count: dict[str, int] = {}
    for reason in left.values():
        count[reason] = count.get(reason, 0) + 1
    return "; ".join(f"{reason} ({times})" for reason, times in count.items())


def samplers_command(as_json: bool) -> int:
    """`pp3 samplers`: what can be tried here, and why the rest cannot."""
    from pp3.harness.backends import cuda_available

    gpu = cuda_available()
    rows = [(entry, registry.missing(entry, gpu)) for entry in registry.everything().values()]
    if as_json:
        found = [{"name": e.name, "about": e.about, "available": not why, "reason": why} for e, why in rows]
        click.echo(msgspec.json.encode(found).decode())
        return Exit.OK
    columns = [
        terminal.Column(head="here"),
        terminal.Column(head="sampler", fit=terminal.Fit.CUT),
        terminal.Column(head="what it is", fit=terminal.Fit.FOLD),
    ]
    cells = [["no" if why else "yes", e.name, f"{e.about} [{why}]" if why else e.about] for e, why in rows]
    yours = "Your own: --sampler module:object or file.py:object; `pp3 init` writes one to start from."
    can = f"{sum(not why for _, why in rows)} of {len(rows)} can be tried here."
    for line in [*terminal.table(columns, cells), can, *terminal.fold(yours, terminal.width())]:
        click.echo(line)
    return Exit.OK
