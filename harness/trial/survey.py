"""`pp3 survey`: every sampler that can run here, one receipt each, and one page that says what became of them all."""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.evidence import receipt, store
from pp3.harness.evidence import survey as survey_receipt
from pp3.harness.progress import Bar
from pp3.harness.qualify import page_of, shown
from pp3.harness.samplers import registry
from pp3.harness.terminal import Column, Fit, kept, labelled, sentence, table
from pp3.harness.trial.command import Ran, check_jobs, run_one
from pp3.harness.trial.device import choose, gpus
from pp3.harness.trial.plan import FULL, QUICK, TrialSpec, check
from pp3.harness.trial.spread import slots_for

DETECT = 0.005  # what a survey promises on a GPU

GRAVEST = ("INVALID", "FAIL", "INCONCLUSIVE", "TOLERATED", "PASS")


def run_command(
    names: Sequence[str],
    requests: int | None,
    detect: float | None,
    device: str,
    jobs: int,
    within: float | None,
    image: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Everything the command does; 0 when everything that can run here ran, whatever its verdict."""
    check_jobs(jobs)
    if within is not None and not within > 0:
        raise CampaignError(f"--within {within:g}; it must be more than 0 seconds")
    last = math.inf if within is None else time.monotonic() + within
    started = datetime.now(UTC)
    where = choose(device)
    chosen, left = select(names, where == "cuda")
    promised = detect if detect is not None else DETECT if where == "cuda" else 0.0
    count = requests if requests is not None else FULL if where == "cuda" else QUICK
    check(TrialSpec(requests=count, detect=promised), "pp3 survey")
    folders = store.open_store(out)
    ran: dict[str, Ran] = {}
    slots = slots_for(jobs, gpus(where))  # processes at once, those of a slow sampler that is spread over several too
    with Bar() as bar, _stoppable(jobs) as (pool, stop):
        running = {}
        for entry in chosen:
            counter, how = store.claim_counter(folders, None)
            given, own = requests is not None, image if entry.image else None
            most = 0 if given else entry.requests
            spec = TrialSpec(sampler=entry.name, requests=min(count, most or count), detect=promised)
            spread = jobs if entry.requests else 1
            one = pool.submit(
                _in_time,
                last,
                *(spec, given, own, where, counter, how, folders, bar.update, False, stop),
                jobs=spread,
                slots=slots,
                most=most,
            )
            running[one] = entry.name
        for one in as_completed(running):
            try:
                ran[running[one]] = one.result()
            except PP3Error as error:
                left[running[one]] = str(error)
                continue
            found = ran[running[one]]
            if not as_json:
                bar.say(f"{found.seconds:6.1f} s  {found.judged.verdict.value:12}  {running[one]}")
    if not ran:
        click.echo("pp3: nothing ran: " + "; ".join(f"{name}: {why}" for name, why in left.items()), err=True)
        return Exit.NOTHING_RAN
    statement = survey_receipt.build(started, [row_of(ran[entry.name]) for entry in chosen if entry.name in ran], left)
    written = receipt.write(statement, folders.receipts)
    page = page_of(statement, written, folders.reports)
    if as_json:
        result = {
            "receipt": str(written),
            "report": str(page) if page else None,
            "samplers": statement["predicate"]["samplers"],
        }
        click.echo(msgspec.json.encode(result | {"notRun": left}).decode())
        return Exit.OK
    for line in _lines(statement["predicate"], written, page):
        click.echo(line)
    return Exit.OK


def _lines(predicate: dict[str, Any], written: Path, page: Path | None) -> list[str]:
    """What became of all, those that are wrong with their first reasons, every sampler, those that were not run."""
    ordered = sorted(predicate["samplers"], key=lambda row: GRAVEST.index(row["verdict"]))
    columns = [
        Column(head="verdict"),
        Column(head="sampler", fit=Fit.FOLD),
        Column(head="version", fit=Fit.FOLD),
        Column(head="requests", right=True),
        Column(head="sees TV", right=True),
    ]
    rows = [
        [row["verdict"], row["name"], row["version"], f"{row['requests']:,}", f"{float(row['resolution']):.3g}"]
        for row in ordered
    ]
    absent = [[name, why] for name, why in predicate["notRun"].items()]
    return [
        *sentence(predicate["sentence"]),
        "",
        *(line for row in ordered for line in _wrong(row)),
        *table(columns, rows),
        "",
        *(table([Column(head="not run", fit=Fit.FOLD), Column(head="why", fit=Fit.FOLD)], absent) if absent else []),
        *([""] if absent else []),
        kept("receipt", shown(written)),
        kept("page", shown(page) if page else "not written: pip install pp3[report]"),
    ]


def _wrong(row: dict[str, Any]) -> list[str]:
    """A sampler with its first reason, and how many more there are; nothing where there is none."""
    if not row["reasons"]:
        return []
    first, more = row["reasons"][0].partition("; ")[0], len(row["reasons"]) - 1
    said = f"{row['name']}: {first}{f' (and {more} more)' if more else ''}"
    return [*labelled(row["verdict"], said, word=row["verdict"]), ""]


def _in_time(last: float, *what: Any, **how: Any) -> Ran:
    """Try one sampler, unless it is too late to begin. PP3Error (69) if it is."""
    if time.monotonic() > last:
        raise PP3Error("the time given by --within was over before it could begin", Exit.UNAVAILABLE)
    return run_one(*what, **how)


@contextmanager
def _stoppable(jobs: int) -> Iterator[tuple[ThreadPoolExecutor, threading.Event]]:
    """Threads that an interrupt ends, those that run and those that wait."""
    stop = threading.Event()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield pool, stop
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def select(names: Sequence[str], gpu: bool) -> tuple[list[registry.Entry], dict[str, str]]:
    """The wanted samplers that can run here, and why the others cannot. CampaignError for an unknown one."""
    wanted = [registry.find(name) for name in names] if names else list(registry.everything().values())
    if len({entry.name for entry in wanted}) < len(wanted):
        raise CampaignError(f"--sampler names one twice: {', '.join(names)}")
    left = {
        entry.name: why
        for entry in wanted
        if (why := registry.missing(entry, gpu) or (not names and _slow(entry, gpu)))
    }
    return [entry for entry in wanted if entry.name not in left], left


def _slow(entry: registry.Entry, gpu: bool) -> str:
    """Why nobody waits for a sampler on this device unless it is named, or ""."""
    return entry.slow if ("cuda" if gpu else "cpu") in entry.slow_on else ""


def row_of(one: Ran) -> dict[str, Any]:
    """One sampler in the survey's receipt: what its own receipt says, and that receipt's digest."""
    trial, judged = one.found.trial, one.judged
    entry = registry.everything().get(trial.spec.sampler)
    return {
        "about": entry.about if entry else "",
        "name": trial.spec.sampler,
        "profile": str(trial.who.kind),
        "reasons": judged.reasons,
        "receipt": one.receipt.name,
        "requests": trial.requests,
        "resolution": f"{judged.resolution:.6g}",
        "sentence": judged.sentence,
        "verdict": judged.verdict.value,
        "version": trial.who.version,
    }
