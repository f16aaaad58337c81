"""Whether parts tile a campaign: every piece once, none of anything else."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pp3.harness.errors import VerificationError

SHOWN = 3  # names of missing pieces that are told


def check(parts: Iterable[tuple[Path, dict[str, Any]]], names: list[str]) -> dict[str, dict[str, Any]]:
    """The part of every piece, by name, in the order of `names`.

    VerificationError names the file of a foreign, doubled or renamed part, or the pieces that are missing. A part is
    looked up by what it says, not by the name of its file, so that a copy under another name is seen to be one.
    """
    wanted = set(names)
    found: dict[str, dict[str, Any]] = {}
    files: dict[str, Path] = {}
    for path, part in parts:
        name = part["name"]
        if name not in wanted:
            raise VerificationError(f"{path}: foreign: {name!r} is no piece of this campaign; remove it")
        if name in found:
            raise VerificationError(f"{path}: doubled: {name} is in {files[name].name} too; remove one of them")
        found[name], files[name] = part, path
    for name, path in files.items():
        if path.stem != name:
            raise VerificationError(f"{path}: renamed: it is the part of {name}; call it {name}.json again")
    missing = [name for name in names if name not in found]
    if missing:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise VerificationError(
            f"missing: {', '.join(missing[:SHOWN])}{more}, of {len(names)} pieces; run them with "
            "--resume, or the shards that hold them"
        )
    return {name: found[name] for name in names}
