"""The integers of a campaign or a trial that its seed fixes, and where two sets of them first differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

Key = tuple[str, int]  # cell id, rows a launch (0 in a trial, which has one size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Integers:
    """Counts by cell, and whatever else a run counted."""

    counts: dict[Key, list[int]]
    first: dict[Key, list[int]]  # of the first half of the requests
    strays: dict[tuple[str, int, int], int] = field(default_factory=dict)  # cell, rows a launch, outcome
    breaches: dict[str, int] = field(default_factory=dict)
    pairs: dict[str, str] = field(default_factory=dict)  # temperature-0 pairs of each shard, as one text
    broken: dict[str, str] = field(default_factory=dict)

    def of(self, parts: Sequence[str]) -> "Integers":
        """Those of some parts, each the beginning of a cell's id. Breaches of a campaign are not told apart by part."""

        def inside(name: str) -> bool:
            return any(name.startswith(f"{part}/") or name == part for part in parts)

        return Integers(
            counts={key: found for key, found in self.counts.items() if inside(key[0])},
            first={key: found for key, found in self.first.items() if inside(key[0])},
            strays={key: count for key, count in self.strays.items() if inside(key[0])},
            breaches={key: count for key, count in self.breaches.items() if inside(key)},
            pairs={key: text for key, text in self.pairs.items() if inside(key)},
            broken={key: why for key, why in self.broken.items() if inside(key)},
        )

    @property
    def size(self) -> int:
        """How many counts there are."""
        return sum(map(len, self.counts.values())) + sum(map(len, self.first.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Where two sets of integers first differ."""

    cell: str
    batch: int  # 0 where launches have one size
    what: str  # counts, first half, forbidden outcomes, ...
    outcome: str  # of the cell: a token, a length, a code
    old: str
    new: str

    @property
    def sentence(self) -> str:
        """In words."""
        where = f"{self.cell} at batch {self.batch}" if self.batch else self.cell
        return f"{where}: {self.what}{self.outcome and f' of {self.outcome}'}: {self.old} there, {self.new} here"


def of_predicate(predicate: Mapping[str, Any]) -> Integers:
    """The integers of a receipt of a campaign or a trial; those of a run in receipt form, too."""
    cells = predicate["cells"]
    return Integers(
        counts={(row["id"], row.get("batch", 0)): row["counts"] for row in cells},
        first={(row["id"], row.get("batch", 0)): row["first"] for row in cells if row.get("first")},
        strays={
            (row["cell"], row.get("batch", 0), row["outcome"]): row["count"]
            for row in predicate["strays"]
            if row["count"]
        },
        breaches={name: count for name, count in predicate["breaches"].items() if count},
        pairs=_pairs(predicate.get("paired", [])),
        broken=dict(predicate.get("broken", {})),
    )


def _pairs(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Shards of pairs by target, depth and number."""
    found: dict[str, str] = {}
    for row in rows:
        part = f"{row['target']}/depth-{row['depth']}"
        number = sum(key.startswith(f"{part}/") for key in found)
        found[f"{part}/pairs-{number}"] = f"{row['mismatches']} of {row['pairs']} differ, first {dict(row['first'])}"
    return found


def first_mismatch(old: Integers, new: Integers, atoms: Mapping[str, Sequence[int]]) -> Mismatch | None:
    """The first cell, in the order of `old`, whose integers differ; None if all are equal.

    atoms names the outcomes of a cell: what its counts stand for, in order.
    """
    return next(_mismatches(old, new, atoms), None)


def _mismatches(old: Integers, new: Integers, atoms: Mapping[str, Sequence[int]]) -> Iterator[Mismatch]:
    for what, one, other in (("counts", old.counts, new.counts), ("counts of the first half", old.first, new.first)):
        for cell, batch in [*one, *(key for key in other if key not in one)]:
            mine, theirs = one.get((cell, batch), []), other.get((cell, batch), [])
            if mine != theirs:
                yield _in_cell(cell, batch, what, mine, theirs, atoms.get(cell, []))
    for stray in [*old.strays, *(key for key in new.strays if key not in old.strays)]:
        if old.strays.get(stray) != new.strays.get(stray):
            cell, batch, outcome = stray
            yield Mismatch(
                cell=cell,
                batch=batch,
                what="forbidden outcomes",
                outcome=f"outcome {outcome}",
                old=str(old.strays.get(stray, 0)),
                new=str(new.strays.get(stray, 0)),
            )
    for what, before, after in (
        ("temperature-0 pairs", old.pairs, new.pairs),
        ("breaches of the contract", old.breaches, new.breaches),
        ("end of the run", old.broken, new.broken),
    ):
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield Mismatch(
                    cell=name,
                    batch=0,
                    what=what,
                    outcome="",
                    old=str(before.get(name, "none")),
                    new=str(after.get(name, "none")),
                )


def _in_cell(
    cell: str, batch: int, what: str, mine: Sequence[int], theirs: Sequence[int], names: Sequence[int]
) -> Mismatch:
    """The first outcome of a cell whose counts differ; a count that is not there is none."""
    pairs = enumerate(zip_longest(mine, theirs))
    at, (old, new) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
    outcome = f"outcome {names[at]}" if at < len(names) else "forbidden outcomes"
    said = ["none" if count is None else f"{count:,}" for count in (old, new)]
    return Mismatch(cell=cell, batch=batch, what=what, outcome=outcome, old=said[0], new=said[1])
