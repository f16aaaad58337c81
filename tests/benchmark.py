"""`make bench`: time what runs on a CPU, as multiples of a fixed loop beside it, and compare with the stored multiples.

    python -P tests/benchmark.py --out FILE [--write]

A machine's speed, and what else it does, change both the work and the loop: their ratio is compared, never a time. The
work and the loop take turns; the median of their ratios counts. Written as JSON. Exit 1 if one is LIMIT times slower
than its stored multiple, 3 if nothing is stored of one; --write stores those of this run in place of the others.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pp3.harness.design import cells_of
from pp3.harness.errors import Exit
from pp3.harness.requests import sampled_batch
from pp3.harness.samplers.reference import ReferenceSampler
from pp3.harness.seeds import Seed
from pp3.harness.tally import Tally
from pp3.kernels import reference
from pp3.kernels.reference import SUPPORT
from pp3.targets import build

ROOT = Path(__file__).resolve().parents[1]
BASELINE = Path(__file__).parent / "golden" / "benchmark.json"
TURNS = 9
LIMIT = 1.5  # two runs on two busy cores differed by up to 1.3
SEED = Seed(bytes(range(32)))
DEPTH = 5
Work = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One piece of work against the loop."""

    name: str
    ratio: float  # median over the turns
    least: float
    most: float
    nanoseconds: int  # of the median turn; of this machine alone
    stored: float | None

    @property
    def outcome(self) -> str:
        """ok, slower, faster, or new where nothing is stored."""
        if self.stored is None:
            return "new"
        return "slower" if self.ratio > LIMIT * self.stored else "faster" if self.ratio * LIMIT < self.stored else "ok"


def loop() -> float:
    """The fixed work that everything is a multiple of: some of the interpreter, some of NumPy."""
    total = 0
    for number in range(100_000):
        total += number & 7
    values = np.arange(1 << 18, dtype=np.uint32) * np.uint32(2_654_435_761)
    return float(np.sort(values)[total % len(values)])


def works() -> dict[str, Work]:
    """What is timed; made beforehand, so that only the work itself is."""
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(4, 163_840)).astype(np.float32)
    rows, on = np.arange(4, dtype=np.uint64), np.ones(4, np.bool_)
    target, sampler = build("context"), ReferenceSampler()
    batch = sampled_batch(target, DEPTH, 128, SEED, 0, 1 << 13)
    emission, cells = sampler.run(batch), cells_of(target, DEPTH)
    many = 2000
    probs = draw.dirichlet(np.ones(64), (many, DEPTH + 1)).astype(np.float32)
    probs /= probs.sum(axis=2, keepdims=True)
    keys = np.arange(many, dtype=np.uint64)
    small = draw.normal(size=(many * DEPTH, 64)).astype(np.float32)
    spread = np.repeat(keys, DEPTH)
    drafts = reference.propose(small, np.ones(many * DEPTH, np.bool_), spread, spread, spread)
    token = drafts.token.reshape(many, DEPTH)
    ids, tickets = (part.reshape(many, DEPTH, SUPPORT) for part in (drafts.ids, drafts.tickets))
    every = np.ones(many, np.bool_)
    receipt = max((ROOT / "receipts" / "evidence" / "qualify").glob("*.json"))
    return {
        "reference propose, 4 rows of 163,840": lambda: reference.propose(logits, on, rows, rows, rows),
        "reference verify, 2,000 requests of 64": lambda: reference.verify(
            probs, token, ids, tickets, every, keys, keys, keys
        ),
        "tally, 8,192 requests": lambda: _tallied(Tally(target, DEPTH, cells), batch, emission),
        "pp3 verify, the newest campaign": lambda: _command("verify", str(receipt)),
        "pp3 --help": lambda: _command("--help"),
        "import pp3": lambda: _python("-c", "import pp3"),
    }


def _tallied(tally: Tally, batch: Any, emission: Any) -> object:
    tally.add(batch, emission)
    return tally.histograms()


def _command(*arguments: str) -> None:
    _python("-m", "pp3.harness.cli", *arguments)


def _python(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-P", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode not in (Exit.OK, Exit.INCONCLUSIVE):  # a stale or superseded receipt verifies with 3
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr.decode()[-300:]}")


def measure(
    named: dict[str, Work], base: Work, clock: Callable[[], int], turns: int
) -> dict[str, list[tuple[int, int]]]:
    """Nanoseconds of each work and of the loop right before it, turn by turn; the first turn is not counted."""
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in named}
    for turn in range(turns + 1):
        for name, work in named.items():
            begun = clock()
            base()
            between = clock()
            work()
            ended = clock()
            if turn:
                found[name].append((max(1, ended - between), max(1, between - begun)))
    return found


def rows_of(measured: dict[str, list[tuple[int, int]]], stored: dict[str, float]) -> list[Row]:
    """A row a work."""
    rows = []
    for name, pairs in measured.items():
        ratios = [work / base for work, base in pairs]
        rows.append(
            Row(
                name=name,
                ratio=statistics.median(ratios),
                least=min(ratios),
                most=max(ratios),
                nanoseconds=int(statistics.median(work for work, _ in pairs)),
                stored=stored.get(name),
            )
        )
    return rows


def code_of(rows: Sequence[Row]) -> Exit:
    """1 for a slower one, else 3 for one with nothing stored, else 0."""
    outcomes = {row.outcome for row in rows}
    return Exit.NEGATIVE if "slower" in outcomes else Exit.INCONCLUSIVE if "new" in outcomes else Exit.OK


def main(arguments: Sequence[str]) -> int:
    """Measure, write, compare; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--write", action="store_true", help="store the multiples of this run")
    asked = parser.parse_args(arguments)
    stored = json.loads(BASELINE.read_text("utf-8")) if BASELINE.is_file() else {}
    rows = rows_of(measure(works(), loop, time.perf_counter_ns, TURNS), stored)
    result = [
        {
            "name": row.name,
            "nanoseconds": row.nanoseconds,
            "outcome": row.outcome,
            "ratio": round(row.ratio, 4),
            "ratioLeast": round(row.least, 4),
            "ratioMost": round(row.most, 4),
            "stored": row.stored,
        }
        for row in rows
    ]
    asked.out.write_text(json.dumps({"limit": LIMIT, "rows": result, "turns": TURNS}, indent=1) + "\n", "utf-8")
    print(f"{'multiple of the loop':40} {'now':>8} {'stored':>8}")
    for row in rows:
        print(f"{row.name:40} {row.ratio:8.2f} {row.stored or float('nan'):8.2f}  {row.outcome}")
    print(f"written  {asked.out}")
    if asked.write:
        BASELINE.write_text(json.dumps({row.name: round(row.ratio, 3) for row in rows}, indent=1) + "\n", "utf-8")
        return Exit.OK
    return code_of(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
