"""The README's table of the committed survey: engine by engine and version by version, how many samplers pass, and
which do not. Made from the newest receipt that the ledger does not call superseded; a sampler that passes in it and
fails in a committed trial of its own, of more requests say, is named."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.evidence import ledger
from pp3.harness.evidence.receipt import read
from pp3.harness.paths import find_checkout

BEGIN, END = "<!-- survey: written by make evidence -->", "<!-- end of survey -->"
HEAD = "| engine | version | samplers | verdicts |\n|---|---|---|---|"
CONTROL = "negative control"
NAMES = {"vllm": "vLLM", "flashinfer": "FlashInfer", "sglang": "SGLang", "pp3": "PP3's own"}
PASS, FAIL = "PASS", "FAIL"
Row = dict[str, Any]


def render(root: Path | None = None) -> str:
    """The table in Markdown, below a sentence that says when and on what. PP3Error outside a checkout."""
    root = root or find_checkout()
    if root is None:
        raise PP3Error("no checkout holds this pp3, and the survey is a checkout's: run it from one", Exit.USAGE)
    path = newest(root)
    if path is None:
        return "No survey is committed."
    predicate = read(path)[1]["predicate"]
    page = root / "reports" / "evidence" / "survey" / f"{path.stem}.html"
    links = [f"[receipt]({path.relative_to(root).as_posix()})"]
    links += [f"[page]({page.relative_to(root).as_posix()})"] if page.is_file() else []
    versions = predicate["environment"]["versions"]
    rows = predicate["samplers"]
    said = (
        f"{len(rows)} samplers on {_device(path, rows)}, {predicate['run']['startedUtc'][:10]}, "
        f"torch {versions['torch'].partition('+')[0]}, triton {versions['triton']} ({', '.join(links)}):"
    )
    failing = failing_trials(root)
    return "\n".join([said, "", HEAD, *(_line(*key, found, failing) for key, found in grouped(rows).items())])


def newest(root: Path) -> Path | None:
    """The newest committed survey that nothing supersedes."""
    known = ledger.read(root / "receipts" / ledger.FILE)
    found = None
    for path in sorted((root / "receipts" / "evidence" / "survey").glob("*.json")):
        sha256 = path.stem.rpartition("-")[2]
        if known.head(sha256) == sha256 and read(path)[1]["predicate"]["kind"] == "survey":
            found = path
    return found


def failing_trials(root: Path) -> set[tuple[str, str]]:
    """Name and version of the samplers that fail in a committed trial of their own that nothing supersedes."""
    known = ledger.read(root / "receipts" / ledger.FILE)
    found = set()
    for path in sorted((root / "receipts" / "evidence" / "trial").glob("*.json")):
        sha256 = path.stem.rpartition("-")[2]
        predicate = read(path)[1]["predicate"]
        if known.head(sha256) == sha256 and predicate["verdict"] == FAIL:
            found.add((predicate["sampler"]["name"], predicate["sampler"]["version"]))
    return found


def grouped(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Samplers by engine, those with most first, and by version, the newest first."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["name"].partition("-")[0], row["version"]), []).append(row)
    many: dict[str, int] = {}
    for (engine, _), group in found.items():
        many[engine] = many.get(engine, 0) + len(group)

    def place(key: tuple[str, str]) -> tuple[int, str, list[int]]:
        """Versions by their numbers, downwards."""
        numbers = [-int(part) for part in key[1].partition("+")[0].split(".") if part.isdigit()]
        return -many[key[0]], key[0], numbers

    return {key: found[key] for key in sorted(found, key=place)}


def _device(path: Path, rows: list[Row]) -> str:
    """The GPU of the trials, from the first that lies beside the survey."""
    beside = next((path.parent / row["receipt"] for row in rows if (path.parent / row["receipt"]).is_file()), None)
    device = read(beside)[1]["predicate"]["sampler"]["device"] if beside else {}
    return str(device.get("gpu", "a CPU"))


def _line(engine: str, version: str, rows: list[Row], failing: Collection[tuple[str, str]] = ()) -> str:
    """One engine in one version: what passes is counted, what does not is named, here or in a trial of its own."""

    def short(row: Row) -> str:
        return str(row["name"]).removesuffix(f"-{version}").partition("-")[2]

    def named(group: list[Row]) -> str:
        return ", ".join(sorted(f"`{short(row)}`" for row in group))

    meant = [row for row in rows if CONTROL in row["about"] and row["verdict"] != PASS]
    others = [row for row in rows if row not in meant]
    said = [f"{sum(row['verdict'] == PASS for row in others)} {PASS}"]
    for verdict in sorted({row["verdict"] for row in others} - {PASS}):
        said.append(f"{verdict}: {named([row for row in others if row['verdict'] == verdict])}")
    if meant:
        said.append(f"negative controls, which must fail: {named(meant)}")
    elsewhere = [row for row in others if row["verdict"] == PASS and (row["name"], row["version"]) in failing]
    if elsewhere:
        said.append(f"{FAIL} in trials of their own: {named(elsewhere)}")
    name = NAMES.get(engine, engine)
    return f"| {name} | {version.partition('+')[0]} | {len(rows)} | {'; '.join(said)} |"
