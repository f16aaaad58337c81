"""The cache of image files: a folder for each version, laid out like an unpacked wheel, with its RECORD's rows.

A folder appears whole or not at all, and its files are read-only. A name that is there is never written again.
"""

import base64
import csv
import hashlib
import io
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pp3.harness.errors import CampaignError
from pp3.harness.paths import find_checkout

VARIABLE = "PP3_IMAGE"
FOLDER = ".image"
READ_ONLY = 0o444


def default_folder() -> Path | None:
    """$PP3_IMAGE, else .image in the checkout; None for an installed package without the variable."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    checkout = find_checkout()
    return checkout / FOLDER if checkout else None


def need_folder(given: Path | None = None) -> Path:
    """The given folder, else the default one. CampaignError where there is neither."""
    folder = given or default_folder()
    if folder is None:
        raise CampaignError(f"no folder for the image's files: set {VARIABLE} to one, or run from a checkout")
    return folder


def write(folder: Path, version: str, contents: Mapping[str, bytes]) -> bool:
    """Keep files and their RECORD rows as `folder`; False if it is there already with these bytes.

    CampaignError if it is there with others. OSError if it cannot be written.
    """
    if folder.exists():
        _compare(folder, contents)
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=folder.parent) as scratch:
        made = Path(scratch) / "image"
        files = {**contents, f"vllm-{version}.dist-info/RECORD": format_record(contents)}
        for name, content in files.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(READ_ONLY)
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():
                raise
            _compare(folder, contents)  # another process was first
            return False
    return True


def format_record(contents: Mapping[str, bytes]) -> bytes:
    """RECORD rows of some files: name, SHA-256 in unpadded URL-safe base64, size. Source: the wheel format."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        rows.writerow((name, f"sha256={digest.decode('ascii')}", len(content)))
    return text.getvalue().encode("utf-8")


def parse_record(content: bytes) -> dict[str, str]:
    """Name to SHA-256 in hexadecimal of each RECORD row that has one. ValueError if it is not a RECORD."""
    found = {}
    try:
        rows = [*csv.reader(io.StringIO(content.decode("utf-8"), newline=""))]
    except csv.Error as error:
        raise ValueError(str(error)) from None
    for row in rows:
        if len(row) >= 2 and row[1].startswith("sha256="):
            digest = row[1].removeprefix("sha256=")
            found[row[0]] = base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()
    return found


def _compare(folder: Path, contents: Mapping[str, bytes]) -> None:
    for name, content in contents.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            raise CampaignError(f"{path} is missing or was changed since it was kept: remove {folder} and run again")
