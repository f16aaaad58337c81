"""How far a start of a campaign has come: a small file that is replaced as it goes, and events, one JSON line each.

The file says which process writes it, as the kernel tells processes apart, so that a reader knows a stale one.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.errors import CampaignError, ReceiptError
from pp3.harness.evidence.moment import utc

OFTEN = 0.5  # seconds between two writes
BOOT = Path("/proc/sys/kernel/random/boot_id")
EVENTS = "events.jsonl"
VERDICT = "verdict.json"  # in the folder of a campaign: what came of it, and where its receipt lies
WRAPPER = "wrapper.json"  # in the scratch folder of pp3_locked.sh: how its last run stands


class State(StrEnum):
    """Of one start."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(slots=True, kw_only=True)
class Status:
    """Writes the file and the events of one start."""

    folder: Path
    attempt: int
    shard: str
    cells: Mapping[str, int]  # requests by cell
    pieces: int
    unit: str = "requests"  # what is counted: of an engine, tokens
    clock: Callable[[], float] = time.monotonic
    done: dict[str, int] = field(default_factory=dict)  # requests by cell
    done_pieces: int = 0
    before: int = 0  # requests that were there when it started
    state: State = State.RUNNING
    said: str = ""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _begun: float = 0.0
    _written: float = -1e9

    def __post_init__(self) -> None:
        self._begun = self.clock()

    def add(self, cell: str, requests: int) -> None:
        """One piece is there."""
        self.done[cell] = self.done.get(cell, 0) + requests
        self.done_pieces += 1
        if self.clock() - self._written >= OFTEN:
            self.write()

    def reach(self, cell: str, requests: int) -> None:
        """So many more are done of a piece that has not ended."""
        self.done[cell] = self.done.get(cell, 0) + requests
        if self.clock() - self._written >= OFTEN:
            self.write()

    def end(self, state: State, said: str = "") -> None:
        """This start has ended."""
        self.state, self.said = state, said
        self.write()
        self.tell(state.value, {"said": said} if said else {})

    def tell(self, event: str, said: Mapping[str, Any]) -> None:
        """Add a line to the events, in one write, so that lines of several starts do not mix."""
        line = {"attempt": self.attempt, "event": event, "shard": self.shard, "utc": utc(datetime.now(UTC)), **said}
        content = json.dumps(line, sort_keys=True).encode() + b"\n"
        handle = os.open(self.folder / EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, content)
        finally:
            os.close(handle)

    def write(self) -> None:
        """Replace the file."""
        self._written = self.clock()
        write_status(self.folder / "status" / f"{self.attempt:04d}.json", self.plain())

    def plain(self) -> dict[str, Any]:
        """The file's content."""
        done, total = sum(self.done.values()), sum(self.cells.values())
        spent = self.clock() - self._begun
        fresh = done - self.before
        rate = int(fresh / spent) if spent > 0 else 0
        return {
            "attempt": self.attempt,
            "cells": {name: {"done": self.done.get(name, 0), "total": size} for name, size in self.cells.items()},
            "pieces": {"done": self.done_pieces, "total": self.pieces},
            "process": process(os.getpid()),
            self.unit: {"done": done, "total": total},
            f"{self.unit}PerSecond": rate,
            "said": self.said,
            "secondsLeft": (total - done) // rate if rate and self.state is State.RUNNING else 0,
            "shard": self.shard,
            "startedUtc": utc(self.started),
            "state": self.state.value,
            "unit": self.unit,
            "updatedUtc": utc(datetime.now(UTC)),
        }


def write_status(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a status file by a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_bytes(canonical.encode(dict(content)))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def read_status(path: Path) -> dict[str, Any]:
    """A status file. CampaignError if it is none."""
    try:
        found = canonical.decode(path.read_bytes())
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}; give the folder of a campaign (--dir)") from None
    except ReceiptError as error:
        raise CampaignError(f"{path}: {error}; it is no status file, remove it") from None
    if not isinstance(found, dict) or "state" not in found or "process" not in found:
        raise CampaignError(f"{path}: it is no status file, remove it")
    return found


def process(pid: int) -> dict[str, Any]:
    """What tells a process from any other, also after a restart of the machine."""
    try:
        boot = BOOT.read_text("ascii").strip()
    except OSError:
        boot = ""
    return {"boot": boot, "pid": pid, "ticks": _ticks(pid)}


def lives(said: Mapping[str, Any]) -> bool | None:
    """Whether the process of a status file is there; None if it is another machine's."""
    here = process(int(said["pid"]))
    if not said["boot"] or said["boot"] != here["boot"]:
        return None
    return bool(here["ticks"]) and here["ticks"] == said["ticks"]


def _ticks(pid: int) -> int:
    """When a process was started, in the kernel's ticks; 0 if there is none, or only what is left of one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == b"Z" else int(fields[19])
