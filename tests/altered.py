"""A statement with one thing altered, and written anew under its digest, as a forger would."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.evidence.receipt import stamp
from pp3.harness.evidence.verify import Verified, verify
from pp3.harness.seeds import Seed

Statement = dict[str, Any]
Change = Callable[[Statement], object]


def written(statement: Statement) -> tuple[str, bytes]:
    """Its canonical bytes, and the name that they give it."""
    content = canonical.encode(statement)
    run = statement["predicate"].get("run") if isinstance(statement.get("predicate"), dict) else None
    moment = stamp(str(run.get("startedUtc"))) if isinstance(run, dict) else "unknown"
    return f"{moment}-{hashlib.sha256(content).hexdigest()}.json", content


def sealed(statement: Statement, source: Path | None = None) -> Verified:
    """Verify a statement that is written anew."""
    name, content = written(statement)
    return verify(Path(name), content, source)


def sealed_in(statement: Statement, folder: Path) -> Verified:
    """Likewise, among what lies in a folder."""
    name, content = written(statement)
    return verify(folder / name, content)


def reseal_plan(statement: Statement) -> None:
    """Make the plan's digest and the seed follow from a changed plan."""
    predicate = statement["predicate"]
    predicate["planSha256"] = canonical.sha256(predicate["plan"])
    predicate["seed"]["sha256"] = Seed.of(predicate["planSha256"], predicate["seed"]["counter"]).value.hex()


def edit(*path: str | int, to: Any) -> Change:
    """Set a value of the predicate, or give it to a function of the old one."""

    def change(statement: Statement) -> None:
        place = statement["predicate"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to(place[path[-1]]) if callable(to) else to

    return change


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(statement: Statement) -> None:
        for one in changes:
            one(statement)

    return change


def drop(*path: str | int, at: int = 0) -> Change:
    """Remove one item of a list of the predicate."""
    return edit(*path, to=lambda old: old[:at] + old[at + 1 :])


def one_more(event: str) -> Change:
    """One event more in the first cell of a kind."""

    def change(statement: Statement) -> None:
        cells = statement["predicate"]["cells"]
        next(c for c in cells if f"/{event}/" in c["id"])["counts"][0] += 1

    return change


def flipped(text: str) -> str:
    """A digest with its last digit changed."""
    return text[:-1] + ("0" if text[-1] != "0" else "1")
