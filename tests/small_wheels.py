"""Small wheels in the place of vLLM's, the digests of what is in them, and a cache that knows none yet."""

import hashlib
import importlib.metadata
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pp3.harness.image import cache, find, pins

VERSION = "9.9.9"
OTHER = "9.9.8"
FILES = {pins.GUMBEL: b"gumbel = 1\n", pins.VERIFIER: b"verifier = 1\n"}
CHANGED = b"gumbel = 2\n"
PATCHES = pytest.MonkeyPatch


def sha256(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def make_wheel(
    path: Path, files: Mapping[str, bytes] = FILES, record: bytes | None = None, version: str = VERSION
) -> Path:
    """A wheel of these files; its RECORD is right unless one is given."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
        wheel.writestr("vllm/never_read.py", b"raise SystemExit\n")
        wheel.writestr(f"vllm-{version}.dist-info/RECORD", cache.format_record(files) if record is None else record)
    return path


def empty_home(folder: Path, patches: PATCHES) -> Path:
    """The cache, which is empty; with a pin table of the two versions, and no vllm installed outside the folder."""
    table = {
        version: pins.Pin(wheel="0" * 64, files={name: sha256(content) for name, content in FILES.items()})
        for version in (VERSION, OTHER)
    }
    patches.setattr(pins, "PINS", table)
    patches.setattr(find, "DEFAULT", VERSION)
    patches.setenv(cache.VARIABLE, str(folder / "home"))
    real = importlib.metadata.distribution

    def distribution(name: str) -> importlib.metadata.Distribution:
        found = real(name)
        if not Path(str(found.locate_file(""))).is_relative_to(folder):
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    patches.setattr(importlib.metadata, "distribution", distribution)
    return folder / "home"
