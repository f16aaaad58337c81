"""`pp3 qualify --dir DIR`: a campaign in pieces, that can be killed, continued, shared out and merged.

The same for our own sampler and for any other; what differs (the pieces, the verdict) is in own.py and trial.py.
"""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import click

from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence.moment import utc
from pp3.harness.evidence.once import WRITING
from pp3.harness.operations import stall
from pp3.harness.operations.drive import SilentError, drive
from pp3.harness.operations.engines import Engine
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.order import Order
from pp3.harness.operations.status import State, Status
from pp3.harness.progress import Bar

SHARD = re.compile(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One piece: its order, and what it counts for in the status."""

    order: Order
    cell: str
    requests: int

    @property
    def name(self) -> str:
        """Of the piece."""
        return str(self.order["name"])


def parse_shard(text: str | None, tasks: int) -> tuple[int, int]:
    """i and n of `i/n`. CampaignError unless 1 <= i <= n <= the number of pieces."""
    if text is None:
        return 1, 1
    found = SHARD.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        raise CampaignError(f"--shard {text!r}: give i/n with i from 1 to n, as 3/8")
    if int(found[2]) > tasks:
        raise CampaignError(f"--shard {text}: this campaign has {tasks} pieces; take n up to that")
    return int(found[1]), int(found[2])


def run_tasks(
    folder: Folder, tasks: list[Task], engine: Engine, shard: str | None, stall_timeout: int | None = None
) -> None:
    """Run every piece of a shard whose part is not in the folder yet, and put it there.

    stall_timeout: seconds without any piece that ends, after which it gives up; by default as `stall` says.
    """
    number, of = parse_shard(shard, len(tasks))
    mine = {task.name: task for task in tasks[number - 1 :: of]}
    label = f"{number}/{of}"
    manifest = folder.manifest()
    limit = stall.of_folder(folder, stall_timeout)
    attempt = folder.attempt({"shard": label, stall.TOLD: stall_timeout or 0, "startedUtc": utc(datetime.now(UTC))})
    there = folder.names() & mine.keys()
    cells: dict[str, int] = {}
    for task in mine.values():
        cells[task.cell] = cells.get(task.cell, 0) + task.requests
    status = Status(folder=folder.path, attempt=attempt, shard=label, cells=cells, pieces=len(mine))
    for name in there:
        status.done[mine[name].cell] = status.done.get(mine[name].cell, 0) + mine[name].requests
    status.done_pieces, status.before = len(there), sum(status.done.values())
    status.write()
    status.tell("started", {"pieces": len(mine), "there": len(there)})
    with ended(status), Bar() as bar, terminated():

        def take(part: dict[str, Any]) -> None:
            fresh = folder.put(part)
            task = mine[part["name"]]
            limit.took(part["nanoseconds"] / 1e9)
            status.add(task.cell, task.requests if fresh else 0)
            said = {"device": part["device"], "nanoseconds": part["nanoseconds"], "piece": part["name"]}
            status.tell("piece", said | ({} if fresh else {"again": True}))
            bar.update("pieces", status.done_pieces, status.pieces)

        engine.begin(manifest)
        orders = {name: task.order for name, task in mine.items() if name not in there}
        try:
            drive(orders, engine, take, status.tell, lambda: limit.seconds)
        except SilentError:
            folder.stalled(attempt, limit.seconds)
            raise
        status.end(State.DONE)


@contextmanager
def ended(status: Status) -> Iterator[None]:
    """Say in the status how a start has ended, if not well. What cannot be written is not worth another error."""
    try:
        yield
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        with suppress(OSError):
            status.end(State.INTERRUPTED if interrupted else State.FAILED, "" if interrupted else str(error)[:500])
        raise


@contextmanager
def terminated() -> Iterator[None]:
    """SIGTERM ends a campaign as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it for what it runs with &
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)  # whoever holds Ctrl-C back holds this back too

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def open_folder(path: Path, resume: bool, shard: bool) -> Folder:
    """The folder of a campaign, not made yet. CampaignError if it is another's, or there is nothing to go on with."""
    folder = Folder(path)
    if path.exists() and not path.is_dir():
        raise CampaignError(f"--dir {path}: it is no folder")
    if resume and not folder.holds_one():
        raise CampaignError(f"--resume: {path} holds no campaign; without --resume one is begun there")
    if not resume and not shard and path.is_dir():
        if folder.holds_one():
            raise CampaignError(f"--dir {path}: it holds a campaign; --resume goes on with it, or give another folder")
        if any(not left.name.startswith(WRITING) for left in path.iterdir()):
            raise CampaignError(f"--dir {path}: it is not empty; give a new or empty folder")
    return folder


def said_of(folder: Folder, shard: str) -> int:
    """What is said when a shard is there and the whole is not asked for."""
    click.echo(f"shard {shard} is there: {folder.path}; when all are, join them with  pp3 merge {folder.path}")
    return Exit.OK
