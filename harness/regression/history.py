"""`pp3 history`: every receipt of a folder as one row, oldest first.

Nothing is recomputed: `pp3 verify` does that. A row says whether the file's bytes are those that its name promises, and
whether the sources that it binds are those of this tree.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pp3.harness import terminal
from pp3.harness.errors import CampaignError, Exit, PP3Error, ReceiptError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import read
from pp3.harness.power import Unit
from pp3.harness.regression.opened import CAMPAIGN, TRIAL, WIRE, device, requests_of, who
from pp3.harness.terminal import Column, Fit

if TYPE_CHECKING:
    import pandas

MINUTE = len("2026-11-30 02:24")
ALTERED, REPLAY = "altered", ", replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One receipt; "" where its kind has no such thing."""

    measured: str
    kind: str
    verdict: str
    sampler: str
    version: str
    device: str
    requests: int
    resolution: str  # total variation of a first token's law that would have been seen
    weakest: str  # of the checks that decide, the one that sees least in total variation, and how much
    state: str  # current, stale: N sources differ, superseded, or altered; and whether it is a replay, no new evidence
    receipt: str


def run_command(folder: Path, as_json: bool, as_csv: bool = False) -> int:
    """Everything the command does; its exit code: 4 where there is no receipt."""
    if as_json and as_csv:
        raise CampaignError("--json and --csv both say how to print; give one")
    if not folder.is_dir():
        raise CampaignError(f"{folder}: no such folder; give one that holds receipts")
    rows, left = history(folder)
    for path, why in left.items():
        click.echo(f"pp3: left out: {path}: {why}", err=True)
    if as_json:
        click.echo(msgspec.json.encode({"receipts": rows, "leftOut": left}).decode())
    elif rows and as_csv:
        click.echo(frame(rows).to_csv(index=False), nl=False)
    elif rows:
        for line in table(rows):
            click.echo(line)
    else:
        click.echo(f"no receipt lies under {folder}", err=True)
    return Exit.OK if rows else Exit.NOTHING_RAN


def history(folder: Path) -> tuple[list[Row], dict[str, str]]:
    """A row for each receipt under a folder, oldest first; and every other JSON file, with why it has none: it is no
    receipt, or a copy of one."""
    rows: dict[Path, Row] = {}
    digests: dict[Path, str] = {}
    left: dict[str, str] = {}
    for path in sorted(folder.rglob("*.json")):
        try:
            content, statement = read(path)
        except ReceiptError as error:
            left[str(path)] = str(error).removeprefix(f"{path}: ")
            continue
        rows[path] = _row(path.relative_to(folder).as_posix(), content, statement)
        digests[path] = hashlib.sha256(content).hexdigest()
    for path, first in copies(digests).items():
        left[str(path)] = copy_of(first)
        del rows[path]
    found = sorted(rows.values(), key=lambda row: (row.measured, row.receipt))
    later: set[tuple[str, ...]] = set()
    for at in range(len(found) - 1, -1, -1):
        row = found[at]
        same = (row.kind, row.sampler, row.version, row.device)
        if row.state.startswith("stale") and same in later:
            found[at] = replace(row, state="superseded")
        elif row.state != ALTERED and not row.state.endswith(REPLAY):
            later.add(same)
    return found, left


def copies(digests: Mapping[Path, str]) -> dict[Path, Path]:
    """Of receipts with their digests, those that another one equals, and that: the first whose name holds the digest,
    else the first of all."""
    by_digest: dict[str, list[Path]] = {}
    for path, digest in digests.items():
        by_digest.setdefault(digest, []).append(path)
    found: dict[Path, Path] = {}
    for digest, paths in by_digest.items():
        kept = min(paths, key=lambda path: (not path.stem.endswith(digest), path))
        found |= {path: kept for path in paths if path != kept}
    return found


def copy_of(path: Path) -> str:
    """Why a receipt is left out beside another one."""
    return f"it is a copy of {path}, which is taken once"


def _row(name: str, content: bytes, statement: dict[str, Any]) -> Row:
    p = statement["predicate"]
    sampler, _, version = who(p).rpartition(" ") if p["kind"] in (CAMPAIGN, WIRE, TRIAL) else (who(p), "", "")
    return Row(
        measured=p["run"]["startedUtc"],
        kind=p["kind"],
        verdict=p["verdict"],
        sampler=sampler,
        version=version,
        device=device(p) if p["kind"] != "survey" else "",
        requests=_requests(p),
        resolution=p.get("resolution", p.get("sees", {}).get("token", "")),
        weakest=_weakest(p.get("tests", [])),
        state=_state(name, content, statement),
        receipt=name,
    )


def _requests(predicate: dict[str, Any]) -> int:
    """Requests; of a trial whose plan is another version's, those that its own counts add up to."""
    try:
        return requests_of(predicate)
    except (PP3Error, KeyError, TypeError, ValueError):
        lengths = [row for row in predicate.get("cells", []) if "/length/" in row["id"]]
        return sum(sum(row["counts"]) for row in lengths)


def _weakest(tests: list[dict[str, Any]]) -> str:
    """The check that sees least of those that decide, in total variation."""
    able = [t for t in tests if float(t["alpha"]) > 0 and t.get("unit") == Unit.TV]  # older receipts have no unit
    least = max(able, key=lambda test: float(test["detectable"]), default=None)
    return "" if least is None else f"{least['id']} {float(least['detectable']):.3g}"


def _state(name: str, content: bytes, statement: dict[str, Any]) -> str:
    if Path(name).stem.rpartition("-")[2] != hashlib.sha256(content).hexdigest():
        return ALTERED
    kind = provenance.kind_of(statement["predicate"])
    if kind not in provenance.ROOTS:
        return ""
    bound = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    here = _sources(kind)
    stale = sum(bound.get(name) != here.get(name) for name in bound.keys() | here.keys())
    replayed = REPLAY if statement["predicate"].get("seed", {}).get("chosen") == "replay" else ""
    return (f"stale: {stale} sources differ" if stale else "current") + replayed


@cache
def _sources(kind: str) -> dict[str, str]:
    return {subject["name"]: subject["digest"]["sha256"] for subject in provenance.sources(kind)}


def frame(rows: list[Row]) -> "pandas.DataFrame":
    """A pandas frame with a column for each field of Row: `measured` as UTC times, `requests` as integers,
    `resolution` as a float, NaN where there is none. PP3Error (69) without pandas.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise PP3Error("pandas is not installed: pip install pp3[report]", Exit.UNAVAILABLE) from None
    found = pandas.DataFrame([asdict(row) for row in rows], columns=[field.name for field in fields(Row)])
    found["measured"] = pandas.to_datetime(found["measured"], utc=True)
    found["resolution"] = pandas.to_numeric(found["resolution"])
    return found


def table(rows: list[Row]) -> list[str]:
    """A row each; what does not fit a terminal is in --json and --csv."""
    columns = [
        Column(head="measured", fit=Fit.FOLD),
        Column(head="kind"),
        Column(head="verdict"),
        Column(head="sampler", fit=Fit.FOLD),
        Column(head="device", fit=Fit.FOLD),
        Column(head="sees", right=True),
        Column(head="pp3", fit=Fit.FOLD),
    ]
    cells = [
        [
            row.measured.replace("T", " ")[:MINUTE],
            row.kind,
            row.verdict,
            f"{row.sampler} {row.version}".strip(),
            row.device.removeprefix("NVIDIA "),
            f"{float(row.resolution):.3g}" if row.resolution else "",
            row.state.replace(" sources differ", ""),
        ]
        for row in rows
    ]
    return terminal.table(columns, cells)
