"""Find vLLM's sampler files, read the named ones only, and hold each against its RECORD and the pin table.

They lie in an installed distribution (asked through importlib.metadata: vllm is never imported), in a wheel, or in a
folder laid out like an unpacked wheel, as `make image` writes it. Nothing is written.
"""

import hashlib
import importlib.metadata
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.image import cache
from pp3.harness.image.pins import DEFAULT, pin_of, public

LARGEST_FILE = 1 << 20  # bytes; the largest of the named files has 74,000
LARGEST_RECORD = 1 << 24
RECORD = re.compile(r"vllm-([^/]+)\.dist-info/RECORD")


class Where(StrEnum):
    """Where an image was found."""

    INSTALLED = "installed"
    WHEEL = "wheel"
    CACHE = "cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file: its bytes, and the three SHA-256 that should be one."""

    name: str
    content: bytes = field(repr=False)
    sha256: str
    recorded: str | None  # RECORD's; None where it has no row for the file
    pinned: str

    @property
    def matches_record(self) -> bool:
        """Whether the bytes are those that RECORD lists."""
        return self.sha256 == self.recorded

    @property
    def matches_pin(self) -> bool:
        """Whether the bytes are those of the release."""
        return self.sha256 == self.pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The named files of one vLLM, as they were read."""

    version: str
    where: Where
    place: Path  # the wheel, or the folder that the files lie in
    members: dict[str, Member]

    @property
    def contents(self) -> dict[str, bytes]:
        """Name to bytes."""
        return {name: member.content for name, member in self.members.items()}

    @property
    def matches_record(self) -> bool:
        """Whether every file is as its RECORD lists it."""
        return all(member.matches_record for member in self.members.values())

    @property
    def matches_pin(self) -> bool:
        """Whether every file is the release's."""
        return all(member.matches_pin for member in self.members.values())

    def refuse_changed(self) -> None:
        """CampaignError that names the first file that is not as it should be, with its hashes."""
        for member in self.members.values():
            if not (member.matches_record and member.matches_pin):
                raise CampaignError(
                    f"vllm {self.version}, {self.where}: {member.name} has sha256 {member.sha256}, its RECORD says"
                    f" {member.recorded or 'nothing'}, the pin is {member.pinned}: it was changed;"
                    f" {_fetch(self.version)}"
                )

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {
            "files": [{"name": name, "sha256": member.sha256} for name, member in sorted(self.members.items())],
            "matchesPin": self.matches_pin,
            "matchesRecord": self.matches_record,
            "version": self.version,
            "where": self.where.value,
        }


def find(path: Path | None = None, version: str | None = None) -> Image:
    """An image at a path (a wheel or a folder); without one, the installed vLLM, else the cache's.

    CampaignError (2) for an unknown or another version, a missing file, something that is no wheel; PP3Error (69) if
    there is no image at all. A changed file is reported by the image, and refused when it is to be loaded.
    """
    if version is not None:
        pin_of(version)
    image = _at(path, version) if path is not None else _anywhere(version)
    if version is not None and public(image.version) != public(version):
        raise CampaignError(f"{image.place} holds vllm {image.version}, not {version}: give the one that is meant")
    return image


def _anywhere(version: str | None) -> Image:
    try:
        distribution = importlib.metadata.distribution("vllm")
    except importlib.metadata.PackageNotFoundError:
        distribution = None
    if distribution is not None and version in (None, public(distribution.version), distribution.version):
        record = distribution.read_text("RECORD")
        if record is None:
            raise CampaignError(f"the installed vllm {distribution.version} has no RECORD; {_fetch(DEFAULT)}")
        place = Path(str(distribution.locate_file("")))
        return _image(distribution.version, Where.INSTALLED, place, record.encode("utf-8"), _folder_reader(place))
    wanted = public(version or DEFAULT)
    folder = cache.default_folder()
    if folder is None or not (folder / wanted).exists():
        raise PP3Error(f"vllm {wanted} is neither installed nor in the cache; {_fetch(wanted)}", Exit.UNAVAILABLE)
    return _at(folder / wanted, wanted)


def _at(path: Path, version: str | None) -> Image:
    if path.is_dir():
        inner = path / public(version or DEFAULT)
        return _in_folder(inner if inner.is_dir() else path)
    if not path.is_file():
        raise CampaignError(f"--image {path}: no such file or folder; {_fetch(version or DEFAULT)}")
    with _zip_errors(path), zipfile.ZipFile(path) as wheel:
        found = _one_record(path, wheel.namelist())
        return _image(
            found[1], Where.WHEEL, path, _unzip(wheel, found[0], LARGEST_RECORD), lambda name: _unzip(wheel, name)
        )


def _in_folder(folder: Path) -> Image:
    found = _one_record(folder, [f"{path.parent.name}/RECORD" for path in folder.glob("vllm-*.dist-info/RECORD")])
    read = _folder_reader(folder)
    return _image(found[1], Where.CACHE, folder, read(found[0]), read)


def _one_record(place: Path, names: list[str]) -> re.Match[str]:
    found = [match for match in map(RECORD.fullmatch, names) if match]
    if len(found) != 1:
        raise CampaignError(
            f"{place} has {len(found)} vllm-VERSION.dist-info/RECORD, not 1: give a vLLM wheel, or a folder that"
            f" make image VERSION={DEFAULT} wrote"
        )
    return found[0]


def _image(version: str, where: Where, place: Path, record: bytes, read: Callable[[str], bytes]) -> Image:
    pinned = pin_of(version).files
    try:
        recorded = cache.parse_record(record)
    except ValueError as error:
        raise CampaignError(f"{place}: the RECORD of vllm {version} cannot be read: {error}") from None
    members = {}
    for name, pin in pinned.items():
        try:
            content = read(name)
        except (KeyError, FileNotFoundError, NotADirectoryError):
            raise CampaignError(
                f"vllm {version}, {where}: {name} is missing from {place} (an editable or partial install has no"
                f" such file); {_fetch(version)}"
            ) from None
        digest = hashlib.sha256(content).hexdigest()
        members[name] = Member(name=name, content=content, sha256=digest, recorded=recorded.get(name), pinned=pin)
    return Image(version=version, where=where, place=place, members=members)


def _folder_reader(folder: Path) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        with (folder / name).open("rb") as file:
            content = file.read(LARGEST_RECORD + 1)
        limit = LARGEST_RECORD if name.endswith("/RECORD") else LARGEST_FILE
        _check_size(name, len(content), limit)
        return content

    return read


def _unzip(wheel: zipfile.ZipFile, name: str, limit: int = LARGEST_FILE) -> bytes:
    _check_size(name, wheel.getinfo(name).file_size, limit)
    return wheel.read(name)


def _check_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise CampaignError(f"{name} has {size} bytes or more, the limit is {limit}: this is no file of a vLLM release")


@contextmanager
def _zip_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise CampaignError(f"{path} cannot be read as a wheel: {error}; {_fetch(DEFAULT)}") from None


def _fetch(version: str) -> str:
    return f"make image VERSION={public(version)} fetches the pinned files, --image names a wheel or folder"
