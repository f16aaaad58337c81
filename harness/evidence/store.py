"""Where a run's receipt and page go, and which counter it takes: spent when a run starts, not when it ends."""

import re
from dataclasses import dataclass
from pathlib import Path

import click

from pp3.harness.canonical import LARGEST
from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError
from pp3.harness.evidence.receipt import leftovers
from pp3.harness.paths import find_checkout

COUNTER = re.compile(rb'"counter":(\d+)')
BROKEN_OFF = "left by a write that was broken off, or is under way; it is no receipt and may be deleted"
LEDGER_COUNTER = re.compile(r"\bcounter=(\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Folders of one run."""

    receipts: Path
    reports: Path
    home: Path  # where counters are kept: the checkout's receipts/runs, or ./pp3-runs


def open_store(out: Path | None) -> Store:
    """The checkout's runs folders, else ./pp3-runs; or a folder of the user's, which must be new or empty."""
    checkout = find_checkout()
    home = checkout / "receipts" / "runs" if checkout else Path.cwd() / "pp3-runs"
    if out is None:
        reports = checkout / "reports" / "runs" if checkout else home
        for path in [left for folder in dict.fromkeys((home, reports)) for left in leftovers(folder)]:
            click.echo(f"pp3: found {path}: {BROKEN_OFF}", err=True)
        return Store(receipts=home, reports=reports, home=home)
    try:
        out.mkdir(parents=True, exist_ok=True)
        held, left = sum(1 for _ in out.iterdir()), leftovers(out)
        if held:
            named = f" ({left[0].name}: {BROKEN_OFF})" if left else ""
            raise CampaignError(f"--out {out} already holds {held} files{named}; give a new or empty folder")
        probe = out / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CampaignError(f"--out {out}: {error.strerror}; give a folder that can be written") from None
    return Store(receipts=out, reports=out, home=home)


def check_counter(wanted: int | None) -> None:
    """CampaignError for a counter that no receipt can hold."""
    if wanted is not None and not 0 <= wanted <= LARGEST:
        raise CampaignError(f"--counter {echo(wanted)}: it must be from 0 to {LARGEST}")


def claim_counter(store: Store, wanted: int | None) -> tuple[int, str]:
    """Spend a counter and leave a mark of the start; the counter, and whether it was the next one or given."""
    check_counter(wanted)
    if wanted is not None:
        _mark(store, wanted)
        return wanted, "given"
    counter = highest(store) + 1
    if counter > LARGEST:
        raise CampaignError(f"counter {counter} is beyond {LARGEST}, the largest; give a free one with --counter")
    while not _mark(store, counter):
        counter += 1
    return counter, "next"


def highest(store: Store) -> int:
    """The highest counter of the ledger, the committed evidence and every run started here; 0 if there is none."""
    seen = [0]
    checkout = find_checkout()
    if checkout and (checkout / "receipts" / "LEDGER").is_file():
        text = (checkout / "receipts" / "LEDGER").read_text("utf-8")
        seen += [int(number) for number in LEDGER_COUNTER.findall(text)]
    folders = [store.home, *([checkout / "receipts" / "evidence"] if checkout else [])]
    for folder in folders:
        for path in folder.rglob("*.json"):
            found = COUNTER.search(path.read_bytes())
            seen += [int(found[1])] if found else []
    started = store.home / "started"
    seen += [int(path.name) for path in started.iterdir() if path.name.isdigit()] if started.is_dir() else []
    return max(seen)


def _mark(store: Store, counter: int) -> bool:
    """Leave a start mark; False if this counter was started before."""
    started = store.home / "started"
    started.mkdir(parents=True, exist_ok=True)
    try:
        (started / f"{counter:06d}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
