"""What a piece costs beside its requests, on this machine: the figures of docs/scale.md.

    python -m pp3.harness.operations.cost FOLDER [--dask ADDRESS]

Prints one JSON object. Work is told in processor time, which other work on the machine lengthens less than the clock's;
writes are told by the clock, on the file system of FOLDER.
"""

import pickle
import time
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec

from pp3.harness import canonical
from pp3.harness.backends import Backend
from pp3.harness.campaign import SHARD, of_document
from pp3.harness.operations import own
from pp3.harness.operations.engines import Engine, lanes, serial
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.order import perform
from pp3.harness.shards.cut import Stage

EMPTY = 200  # pieces without work
AGAIN = 5  # runs of which the median is told


def nothing(order: dict[str, Any]) -> dict[str, Any]:
    """A piece without work."""
    return {"name": order["name"]}


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Median of some runs."""
    found = []
    for _ in range(AGAIN):
        started = clock()
        work()
        found.append(clock() - started)
    return median(found)


def manifest_of(requests: int) -> dict[str, Any]:
    """Of the default targets, one depth and batch size, with so many requests each."""
    document = {"requests": requests, "paired": 0, "depths": [5], "batch_sizes": [4]}
    return own.manifest_of(of_document(document, "cost"), Backend.REFERENCE, 1, "given")


def pieces(requests: int) -> list[dict[str, Any]]:
    """Orders of the first half of each target."""
    manifest = manifest_of(requests)
    tasks = zip(own.pieces_of(manifest), own.tasks_of(manifest), strict=True)
    return [task.order for piece, task in tasks if piece.stage is Stage.REQUESTS and not piece.half]


def add(row: list[int]) -> list[int]:
    """A histogram added to another, as a join does."""
    return [one + other for one, other in zip(row, row, strict=True)]


def each(engine: Engine) -> float:
    """Seconds of the clock that an executor takes for a piece without work."""
    executor = engine.start()
    try:
        for name in ("first", "second"):  # each process has started by then
            executor.submit(nothing, {"name": name}).result()
        started = time.perf_counter()
        wait([executor.submit(nothing, {"name": str(number)}) for number in range(EMPTY)])
        return (time.perf_counter() - started) / EMPTY
    finally:
        engine.stop(executor)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--dask", metavar="ADDRESS", help="Of a scheduler with workers, to measure it too.")
def main(folder: Path, dask: str | None) -> None:
    """Measure it."""
    small, large = pieces(2), pieces(2 * SHARD)
    for order in small:
        perform(order)  # once, for what is computed once
    found: dict[str, Any] = {"targets": {}}
    parts = []
    for one, many in zip(small, large, strict=True):
        fixed = seconds(lambda one=one: perform(one))  # type: ignore[misc]  # bound now, of this turn
        started = time.process_time()
        part = perform(many)
        spent = time.process_time() - started
        parts.append(part)
        found["targets"][one["piece"]["target"]] = {
            "bytesOfPart": len(canonical.encode(part)),
            "microsecondsOfRequest": round(1e6 * (spent - fixed) / SHARD, 3),
            "millisecondsOfPiece": round(1e3 * fixed, 3),
        }
    found["bytesOfOrder"] = len(pickle.dumps(large[0]))
    place = Folder(folder)
    place.begin(manifest_of(2 * SHARD))
    numbered = [part | {"name": f"{part['name']}-{number}"} for number in range(20) for part in parts]
    started = time.perf_counter()
    for part in numbered:
        place.put(part)
    found["millisecondsOfWrite"] = round(1e3 * (time.perf_counter() - started) / len(numbered), 3)
    found["millisecondsOfRead"] = round(1e3 * seconds(lambda: list(place.parts())) / len(numbered), 3)
    counts = [part["result"]["counts"] for part in parts]
    found["millisecondsOfSum"] = round(
        1e3 * seconds(lambda: [[add(row) for row in rows] for rows in counts]) / len(counts), 3
    )
    found["millisecondsOfExecutor"] = {
        "in this process": round(1e3 * each(serial(apart=False)), 3),
        "two processes": round(1e3 * each(lanes(["", ""])), 3),
    }
    if dask:
        from pp3.harness.operations.dask_engine import connect

        found["millisecondsOfExecutor"]["Dask"] = round(1e3 * each(connect(dask)), 3)
    click.echo(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
