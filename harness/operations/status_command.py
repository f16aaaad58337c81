"""`pp3 status DIR`: how far a campaign has come, from the files its starts leave; asks no process and no GPU.

DIR is the folder of a campaign, or the scratch folder of pp3_locked.sh, which names its last one.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from pp3.harness import canonical
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence.moment import moment
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.status import WRAPPER, State, lives, read_status

STALE = 300.0  # seconds without a word from a process of another machine
LONGEST = 12  # cells that are shown before the rest is summed up


def run_command(folder: Path, as_json: bool) -> int:
    """Print it; 0 while it runs or when it is done, 3 if a shard has stopped before its end."""
    said: list[str] = []
    if (folder / WRAPPER).is_file():
        wrapper = read_status(folder / WRAPPER)
        said, folder = [_wrapped(wrapper)], Path(wrapper.get("campaign") or folder)
        if not Folder(folder).holds_one():
            click.echo("[]" if as_json else said[0])
            return (
                Exit.OK if _standing(wrapper) == State.RUNNING or wrapper.get("exit") == Exit.OK else Exit.INCONCLUSIVE
            )
    found = latest(folder)
    if as_json:
        click.echo(canonical.encode(found).decode())
    else:
        for line in [*said, *(line for one in found for line in lines(one))]:
            click.echo(line)
    return Exit.INCONCLUSIVE if any(one["standing"] not in (State.RUNNING, State.DONE) for one in found) else Exit.OK


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
    code = f", exit code {wrapper['exit']}" if "exit" in wrapper else ""
    where = f", in {wrapper['campaign']}" if wrapper.get("campaign") else ""
    return f"pp3_locked --{wrapper['mode']}: {_standing(wrapper)}{code}, said at {wrapper['updatedUtc']}{where}"


def standing(one: dict[str, Any], now: datetime | None = None) -> str:
    """What a status file says, or `stale` if whoever wrote it is gone."""
    if one["state"] != State.RUNNING:
        return str(one["state"])
    there = lives(one["process"])
    if there is None:
        said = moment(one["updatedUtc"])
        there = ((now or datetime.now(UTC)) - said).total_seconds() < STALE
    return State.RUNNING.value if there else "stale"


def lines(one: dict[str, Any]) -> list[str]:
    """One shard, on the terminal."""
    requests, pieces = one["requests"], one["pieces"]
    said = [
        f"shard {one['shard']}, start {one['attempt']}: {one['standing']}"
        + (f" ({one['said']})" if one["said"] else ""),
        f"  pieces    {pieces['done']:,} of {pieces['total']:,}",
        f"  requests  {requests['done']:,} of {requests['total']:,}, {one['requestsPerSecond']:,} a second"
        + (f", {_span(one['secondsLeft'])} left" if one["standing"] == State.RUNNING and one["secondsLeft"] else ""),
        f"  said at   {one['updatedUtc']}",
    ]
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


def _span(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"
