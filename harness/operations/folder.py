"""The folder of a campaign in pieces: what it is, the part of each piece, both parts where two differ, its starts.

    campaign.json       what is run: written once, by whichever start comes first
    parts/NAME.json     what one piece found
    repeated/NAME.json  a second part of the same piece that found the same
    unequal/NAME-DIGEST.json   one that found something else
    attempts/NNNN.json  one for each start
    stalled/NNNN.json   how long that start has waited for any piece to end, in vain
    status/NNNN.json    how far that start has come (status.py); replaced again and again
    events.jsonl        one line for each thing that happened
    verdict.json        what came of it, and where its receipt lies

All but the last three are canonical bytes, written whole under their name or not at all, and never replaced.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.errors import CampaignError, ReceiptError, VerificationError
from pp3.harness.evidence.once import WRITING, write_once

MANIFEST = "campaign.json"
SAME = ("kind", "planSha256", "counter", "backend", "sourcesSha256")  # what all parts of one campaign share
OF_PART = ("planSha256", "counter", "backend", "sourcesSha256")
OF_PROCESS = ("identity", "device", "sources")  # of a result: of the kernels' evidence, of a trial
KEYS = {*OF_PART, "name", "device", "nanoseconds", "result"}  # of a part


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of one campaign."""

    path: Path

    def manifest(self) -> dict[str, Any]:
        """What is run. CampaignError if the folder holds no campaign, or one that cannot be read."""
        path = self.path / MANIFEST
        try:
            found = canonical.decode(path.read_bytes())
        except OSError as error:
            raise CampaignError(f"{path}: {error.strerror}; give the folder of a campaign (--dir)") from None
        except ReceiptError as error:
            raise CampaignError(f"{path}: {error}; it was changed, or is no campaign") from None
        if not isinstance(found, dict) or not set(SAME) <= found.keys():
            raise CampaignError(f"{path}: lacks {sorted({*SAME} - {*found})}; it is no campaign of this version")
        return found

    def make(self) -> None:
        """Make the folder. CampaignError if nothing can be written there."""
        probe = self.path / ".probe"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise CampaignError(f"--dir {self.path}: {error.strerror}; give a folder that can be written") from None

    def holds_one(self) -> bool:
        """Whether a campaign was begun here."""
        return (self.path / MANIFEST).is_file()

    def begin(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Write down what is run; of several starts at once the first decides. What is run."""
        with contextlib.suppress(FileExistsError):
            write_once(self.path / MANIFEST, canonical.encode(manifest))
        return self.manifest()

    def attempt(self, what: dict[str, Any]) -> int:
        """Write down a start; its number, from 1."""
        number = len(list((self.path / "attempts").glob("*.json"))) + 1
        while True:
            try:
                write_once(self.path / "attempts" / f"{number:04d}.json", canonical.encode(what))
                return number
            except FileExistsError:
                number += 1

    def starts(self) -> list[dict[str, Any]]:
        """What each start has written down, in their order."""
        return [canonical.decode(path.read_bytes()) for path in sorted((self.path / "attempts").glob("[0-9]*.json"))]

    def stalled(self, attempt: int, seconds: int) -> None:
        """Write down that a start has waited so many seconds in vain."""
        write_once(self.path / "stalled" / f"{attempt:04d}.json", canonical.encode({"seconds": seconds}))

    def waited(self) -> list[int]:
        """Seconds that each start which gave up has waited."""
        return [canonical.decode(path.read_bytes())["seconds"] for path in (self.path / "stalled").glob("[0-9]*.json")]

    def attempts(self) -> int:
        """How often the campaign was started here."""
        return len(list((self.path / "attempts").glob("[0-9]*.json")))

    def names(self) -> set[str]:
        """Of the pieces whose part is here."""
        return {path.stem for path in self.files()}

    def files(self) -> list[Path]:
        """Of the parts, by name; what a broken write has left is none."""
        return sorted(path for path in (self.path / "parts").glob("*") if not path.name.startswith(WRITING))

    def beside(self) -> list[Path]:
        """Of second parts of pieces, equal and unequal, by name."""
        return sorted(path for kind in ("repeated", "unequal") for path in (self.path / kind).glob("[!.]*.json"))

    def put(self, part: dict[str, Any]) -> bool:
        """Keep a part; False if the piece had one that is equal, or this is kept beside another one that differs."""
        content = canonical.encode(part)
        try:
            write_once(self.path / "parts" / f"{part['name']}.json", content)
        except FileExistsError:
            before = read_part(self.path / "parts" / f"{part['name']}.json", self.manifest())
            if before != part:  # or it is a copy, and nothing was run again
                self._put_beside(part, _counted(before["result"]) == _counted(part["result"]))
            return False
        return True

    def _put_beside(self, part: dict[str, Any], equal: bool) -> None:
        digest = canonical.sha256(part["result"])
        name = f"repeated/{part['name']}.json" if equal else f"unequal/{part['name']}-{digest}.json"
        with contextlib.suppress(FileExistsError):
            write_once(self.path / name, canonical.encode(part))

    def repeated(self) -> set[str]:
        """Of the pieces that were run again, with equal results."""
        return {path.stem for path in (self.path / "repeated").glob("[!.]*.json")}

    def unequal(self) -> set[str]:
        """Of the pieces that came to other counts when they were run again."""
        return {path.stem.rpartition("-")[0] for path in (self.path / "unequal").glob("[!.]*.json")}

    def parts(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Every part, by name of its file. VerificationError for one that is not of this campaign."""
        manifest = self.manifest()
        for path in self.files():
            yield path, read_part(path, manifest)


def _counted(result: dict[str, Any]) -> dict[str, Any]:
    """What of a result must be equal on repeat: not what it ran on, nor what its process had compiled or loaded."""
    return {name: found for name, found in result.items() if name not in OF_PROCESS}


def read_part(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """One part. VerificationError, with the name of the file, unless it is whole and of this campaign."""
    try:
        found = canonical.decode(path.read_bytes())
    except ReceiptError as error:
        raise VerificationError(f"{path}: foreign: {error}; remove it, and run its piece again") from None
    if not isinstance(found, dict) or found.keys() != KEYS:
        raise VerificationError(f"{path}: foreign: it is no part of a campaign of this version")
    for key in OF_PART:
        if found[key] != manifest[key]:
            raise VerificationError(f"{path}: foreign: its {key} is {found[key]}, the campaign's {manifest[key]}")
    if not isinstance(found["name"], str) or not isinstance(found["result"], dict):
        raise VerificationError(f"{path}: foreign: its name is no text, or its result no object")
    return found


def same(one: dict[str, Any], other: dict[str, Any], where: str) -> None:
    """CampaignError unless two descriptions are of one campaign."""
    for key in SAME:
        if one[key] != other[key]:
            raise CampaignError(
                f"{where}: holds a campaign whose {key} is {one[key]}, not {other[key]}; give another folder, or "
                "--resume alone to go on with that one"
            )
