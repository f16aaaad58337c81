"""`pp3 status DIR`: how far a campaign has come, from the files its starts leave; asks no process and no GPU.

DIR is the folder of a campaign, or the scratch folder of pp3_locked.sh, which names its last one.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pp3.harness import canonical
from pp3.harness.errors import CampaignError, Exit, ReceiptError
from pp3.harness.evidence.moment import moment
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.status import VERDICT, WRAPPER, State, lives, read_status

STALE = 300.0  # seconds without a word from a process of another machine
MEANINGS = {  # of exit codes: docs/exit-codes.md
    Exit.OK: "passed",
    Exit.NEGATIVE: "failed or invalid",
    Exit.USAGE: "refused: usage",
    Exit.INCONCLUSIVE: "inconclusive",
    Exit.UNAVAILABLE: "something is missing or busy",
    Exit.INTERNAL: "internal error",
    Exit.IO: "input or output failed",
    Exit.INTERRUPTED: "interrupted",
}
BEFORE = "ended"  # standing of what a run that is under way goes on with
LONGEST = 12  # cells that are shown before the rest is summed up


def run_command(folder: Path, as_json: bool) -> int:
    """Print it; 0 while it runs or when it is done, 3 if a shard has stopped before its end."""
    said: list[str] = []
    wrapper: dict[str, Any] = {}
    if (folder / WRAPPER).is_file():
        wrapper = read_status(folder / WRAPPER)
        said, folder = [_wrapped(wrapper)], Path(wrapper.get("campaign") or folder)
    runs = bool(wrapper) and _standing(wrapper) == State.RUNNING
    begun = not wrapper or any((folder / "status").glob("[0-9]*.json"))
    found = latest(folder) if begun else []
    if runs and all(one["startedUtc"] < wrapper["startedUtc"] for one in found):
        said.append("  no piece has been begun yet" + ("; the start before it:" if found else ""))
        found = [one | {"standing": BEFORE} for one in found]
    if as_json:
        click.echo(canonical.encode(found).decode())
    else:
        for line in [*said, *(line for one in found for line in lines(one)), *_verdict(folder)]:
            click.echo(line)
    if not begun:
        return Exit.OK if runs or wrapper.get("exit") == Exit.OK else Exit.INCONCLUSIVE
    well = (State.RUNNING, State.DONE, BEFORE)
    return Exit.OK if all(one["standing"] in well for one in found) else Exit.INCONCLUSIVE


def latest(folder: Path) -> list[dict[str, Any]]:
    """The last start of each shard, with how it stands: running, done, failed, interrupted, stale or unknown."""
    Folder(folder).manifest()
    by_shard: dict[str, dict[str, Any]] = {}
    for path in sorted((folder / "status").glob("[0-9]*.json")):
        one = read_status(path)
        by_shard[one["shard"]] = one
    if not by_shard:
        raise CampaignError(f"{folder}: no start has left a status yet; is it running?")
    return [one | {"standing": standing(one)} for one in by_shard.values()]


def _standing(wrapper: dict[str, Any]) -> str:
    """Of the run of a wrapper."""
    return "stale" if wrapper["state"] == State.RUNNING and lives(wrapper["process"]) is False else wrapper["state"]


def _wrapped(wrapper: dict[str, Any]) -> str:
    state, where = _standing(wrapper), f", in {wrapper['campaign']}" if wrapper.get("campaign") else ""
    if "exit" not in wrapper:
        return f"pp3_locked --{wrapper['mode']}: {state}, since {wrapper['updatedUtc']}{where}"
    code = wrapper["exit"]
    meaning = f" ({MEANINGS[code]})" if code in MEANINGS else ""
    return f"pp3_locked --{wrapper['mode']}: {state}, exit code {code}{meaning}, at {wrapper['updatedUtc']}{where}"


def _verdict(folder: Path) -> list[str]:
    """What came of a campaign that was judged, and where its receipt lies."""
    try:
        found = canonical.decode((folder / VERDICT).read_bytes())
        return [f"verdict {found['verdict']}", f"  receipt   {found['receipt']}"]
    except (OSError, ReceiptError, KeyError, TypeError):
        return []


def standing(one: dict[str, Any], now: datetime | None = None) -> str:
    """What a status file says, or `stale` if whoever wrote it is gone."""
    if one["state"] != State.RUNNING:
        return str(one["state"])
    there = lives(one["process"])
    if there is None:
        said = moment(one["updatedUtc"])
        there = ((now or datetime.now(UTC)) - said).total_seconds() < STALE
    return State.RUNNING.value if there else "stale"


def counted(one: dict[str, Any]) -> dict[str, int]:
    """What is done of how much, in the unit of a status."""
    found: dict[str, int] = one[one["unit"]]
    return found


def progress(one: dict[str, Any]) -> str:
    """One shard, in one line."""
    requests, pieces = counted(one), one["pieces"]
    done = f"{requests['done']:,} of {requests['total']:,} {one['unit']}{_rate(one)}"
    return f"shard {one['shard']}: {one['standing']}, {pieces['done']:,} of {pieces['total']:,} pieces, {done}"


def lines(one: dict[str, Any]) -> list[str]:
    """One shard, on the terminal."""
    requests, pieces = counted(one), one["pieces"]
    said = [
        f"shard {one['shard']}, start {one['attempt']}: {one['standing']}"
        + (f" ({one['said']})" if one["said"] else ""),
        f"  pieces    {pieces['done']:,} of {pieces['total']:,}",
        f"  {one['unit']:8}  {requests['done']:,} of {requests['total']:,}" + _rate(one),
        f"  said at   {one['updatedUtc']}, {_span(_age(one))} ago",
    ]
    other = pieces["total"] - pieces["done"]
    if other and requests["done"] == requests["total"]:
        said.append(f"  to come   {other:,} {'piece' if other == 1 else 'pieces'} without requests: kernels, pairs")
    if one["standing"] == "stale":
        said.append("  its process is gone: go on with --resume (or run this shard again)")
    cells = {name: of for name, of in one["cells"].items() if of["total"]}
    width = max(map(len, cells), default=0)
    open_cells = [name for name, of in cells.items() if of["done"] < of["total"]]
    for name in open_cells[:LONGEST]:
        said.append(f"  {name:{width}}  {cells[name]['done']:,} of {cells[name]['total']:,}")
    if len(open_cells) > LONGEST:
        said.append(f"  and {len(open_cells) - LONGEST} more cells that are not done")
    if cells and len(open_cells) < len(cells):
        said.append(f"  done      {len(cells) - len(open_cells)} of {len(cells)} cells")
    return said


def _rate(one: dict[str, Any]) -> str:
    """While there are requests to run."""
    if one["standing"] != State.RUNNING or counted(one)["done"] == counted(one)["total"]:
        return ""
    left = f", {_span(one['secondsLeft'])} left" if one["secondsLeft"] else ""
    rate = one[one["unit"] + "PerSecond"]
    return f", {rate:,} a second{left}"


def _age(one: dict[str, Any]) -> int:
    """Seconds since a status file was written."""
    return max(0, int((datetime.now(UTC) - moment(one["updatedUtc"])).total_seconds()))


def _span(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"
