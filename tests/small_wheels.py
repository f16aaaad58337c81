"""A small wheel in the place of vLLM's, and the digests of what is in it."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pp3.harness.image import cache, pins

VERSION = "9.9.9"
FILES = {pins.GUMBEL: b"gumbel = 1\n", pins.VERIFIER: b"verifier = 1\n"}
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
