"""The one file of SGLang that verifies a chain of drafts: found, held against its pin, and loaded alone.

It lies in an installed sglang of a pinned version (sglang is never imported) or in the cache, where `python -m
pp3.harness.samplers.sglang_file` puts it: pip brings the pinned wheel, one file of it is kept.
"""

import functools
import hashlib
import importlib.metadata
import linecache
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.image import cache, interpreter
from pp3.harness.image.wheel import bring

NAME = "sglang/kernels/ops/speculative/reject_sampling.py"
GLIBC = "2_34"  # that SGLang's wheels are built for
FETCH = "make sglang"
READ_ONLY = 0o444


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """SHA-256 of the wheel for CPython 3.11 on x86_64, and of the file in it."""

    wheel: str
    file: str


DEFAULT = "0.5.23"
PINS = {
    "0.5.23": Pin(
        wheel="00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
        file="62caac17755082e2f89b1c81a743f55c81c31b7ff0485b7533c0267e72e9262c",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The file, run."""

    version: str
    sha256: str
    module: ModuleType


def missing(version: str = DEFAULT) -> str:
    """Why the file cannot be had here, or ""."""
    try:
        find(version)
    except PP3Error as error:
        return str(error)
    return ""


def find(version: str = DEFAULT) -> Path:
    """Where the file of a version lies. PP3Error (69) if nowhere; CampaignError for a version without a pin."""
    _pin(version)
    try:
        installed = importlib.metadata.distribution("sglang")
    except importlib.metadata.PackageNotFoundError:
        installed = None
    if installed is not None and installed.version == version:
        return Path(str(installed.locate_file(NAME)))
    folder = cache.default_folder()
    if folder is None or not (folder / f"sglang-{version}" / NAME).is_file():
        raise PP3Error(f"the file of sglang {version} is neither installed nor in the cache: {FETCH}", Exit.UNAVAILABLE)
    return folder / f"sglang-{version}" / NAME


@functools.cache
def load(version: str = DEFAULT) -> Loaded:
    """Run the file's checked bytes as a module of no package.

    CampaignError if they are not as pinned; PP3Error (69) if the file is not here, or neither a GPU nor Triton's
    interpreter is there to run it.
    """
    path = find(version)
    content = path.read_bytes()
    _check(str(path), content, _pin(version).file)
    _need_backend()
    module = ModuleType(f"sglang_{version.replace('.', '_')}_reject_sampling")
    module.__file__ = str(path)
    # Triton reads the source of a kernel through linecache; without a time it is not read from the disk again.
    lines = content.decode("utf-8").splitlines(keepends=True)
    linecache.cache[str(path)] = (len(content), None, lines, str(path))
    exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))
    return Loaded(version=version, sha256=_pin(version).file, module=module)


def fetch(version: str = DEFAULT, folder: Path | None = None) -> Path:
    """Bring the file of a version into the cache, unless it is there; where it lies. Errors as `find`, and pip's."""
    pin, home = _pin(version), cache.need_folder(folder)
    kept = home / f"sglang-{version}" / NAME
    if kept.is_file():
        _check(str(kept), kept.read_bytes(), pin.file)
        return kept
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=home) as scratch:
        with zipfile.ZipFile(bring("sglang", version, pin.wheel, GLIBC, Path(scratch))) as wheel:
            content = wheel.read(NAME)
        _check(f"the wheel's {NAME}", content, pin.file)
        made = Path(scratch) / "made" / NAME
        made.parent.mkdir(parents=True)
        made.write_bytes(content)
        made.chmod(READ_ONLY)
        (Path(scratch) / "made").rename(home / f"sglang-{version}")
    return kept


def _pin(version: str) -> Pin:
    if version not in PINS:
        raise CampaignError(f"sglang {version} is not pinned, so its file cannot be checked: use {', '.join(PINS)}")
    return PINS[version]


def _check(name: str, content: bytes, pin: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != pin:
        raise CampaignError(f"{name} has sha256 {digest}, the pin is {pin}: it was changed; remove it, then {FETCH}")


def _need_backend() -> None:
    import torch

    if not interpreter.active() and not torch.cuda.is_available():
        raise PP3Error("no CUDA GPU is visible: set TRITON_INTERPRET=1 before triton is imported", Exit.UNAVAILABLE)


def main(arguments: list[str]) -> int:
    """Fetch one version, by default the newest pinned one; the exit code."""
    try:
        print(fetch(arguments[0] if arguments else DEFAULT))
    except PP3Error as error:
        print(f"pp3: error: {error}", file=sys.stderr)
        return int(error.exit_code)
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
