"""What several GPUs gain: one campaign on one GPU, then on several, with equal counts or an error.

    python -m pp3.harness.operations.scaling FOLDER [--gpus 2] [--requests 20000000] [--batch 64] [--device cuda|cpu]

Prints one JSON object. Times run from the first part to the last, so that starting processes and compiling kernels,
which every process does once, are beside it under `seconds` and not in the ratio `gain`. With --device cpu processes
stand in for GPUs, to try the command.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.backends import Backend
from pp3.harness.campaign import of_document
from pp3.harness.errors import VerificationError
from pp3.harness.operations import own
from pp3.harness.operations.campaign import run_tasks
from pp3.harness.operations.engines import gpus, lanes
from pp3.harness.operations.folder import Folder

COUNTER = 1


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--gpus", "count", type=int, default=2, show_default=True)
@click.option("--requests", type=int, default=20_000_000, show_default=True, help="Of each of the five targets.")
@click.option("--batch", type=int, default=64, show_default=True, help="Rows a launch.")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
def main(folder: Path, count: int, requests: int, batch: int, device: str) -> None:
    """Measure it."""
    document = {"name": "scaling", "requests": requests, "paired": 0, "batch_sizes": [batch], "depths": [5]}
    backend = Backend.CUDA if device == "cuda" else Backend.REFERENCE
    manifest = own.manifest_of(of_document(document, "scaling"), backend, COUNTER, "given")
    tasks = [task for task in own.tasks_of(manifest) if task.requests]
    found = {}
    for number in (1, count):
        names = gpus(str(number)) if backend is Backend.CUDA else [""] * number
        place = Folder(folder / f"gpus-{number}")
        place.path.mkdir(parents=True)
        place.begin(manifest)
        started = time.perf_counter()
        run_tasks(place, tasks, lanes(names), None)
        found[number] = summary(place, time.perf_counter() - started)
    results = [[part["result"] for _, part in Folder(folder / f"gpus-{number}").parts()] for number in (1, count)]
    if results[0] != results[1]:
        raise VerificationError(f"{folder}: {count} GPUs came to other counts than one")
    gain = found[count]["requestsPerSecond"] / found[1]["requestsPerSecond"]
    said = {"equalCounts": True, "gain": round(gain, 3), "pieces": len(tasks), "requests": requests * 5}
    click.echo(msgspec.json.encode(said | {"of": {str(number): one for number, one in found.items()}}).decode())


def summary(folder: Folder, seconds: float) -> dict[str, Any]:
    """Rate between the first part and the last, cost and size of a part, devices."""
    events = [msgspec.json.decode(line) for line in (folder.path / "events.jsonl").read_bytes().splitlines()]
    parts = [part for _, part in folder.parts()]
    moments = sorted(path.stat().st_mtime_ns for path in folder.files())
    sizes = sorted(path.stat().st_size for path in folder.files())
    spent = sorted(part["nanoseconds"] for part in parts)
    requests = {part["name"]: _requests(part["name"]) for part in parts}
    first = min(folder.files(), key=lambda path: path.stat().st_mtime_ns).stem
    span = (moments[-1] - moments[0]) / 1e9
    return {
        "bytesOfPart": {"least": sizes[0], "median": _middle(sizes), "most": sizes[-1]},
        "devices": sorted({part["device"] for part in parts}),
        "lost": sum(event["event"] in ("lost", "broken") for event in events),
        "requestsPerSecond": round((sum(requests.values()) - requests[first]) / span) if span else 0,
        "seconds": round(seconds, 3),
        "secondsOfPart": {"least": spent[0] / 1e9, "median": _middle(spent) / 1e9, "most": spent[-1] / 1e9},
    }


def _requests(name: str) -> int:
    first, _, end = name.rpartition(",")[2].partition("-")
    return int(end) - int(first)


def _middle(values: Iterable[int]) -> int:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


if __name__ == "__main__":
    main()
