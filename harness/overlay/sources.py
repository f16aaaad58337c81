"""The two files that are edited, as an image has them, and everything else of the image held against its pins.

The runner's file is no part of the sampler under test, so `make image` keeps it in a folder of its own beside the
version's. A wheel and an installed vLLM have both.
"""

import hashlib
import zipfile
from pathlib import Path

from pp3.harness.errors import CampaignError
from pp3.harness.image.find import LARGEST_FILE, Image, Where, find
from pp3.harness.image.pins import public
from pp3.harness.overlay.pins import OVERLAYS, RUNNER, SAMPLER, overlay_of
from pp3.harness.overlay.refusal import OverlayError, Reason

BESIDE = "-runner"  # after a version: the folder of its runner file


def checked(path: Path | None) -> tuple[Image, dict[str, bytes]]:
    """The image at a path (by default as `find` looks), every file as pinned, and the two files by name.

    OverlayError for a version without edits and a file that is missing or changed; else as `find` raises.
    """
    image = find(path)
    pinned = overlay_of(image.version)
    try:
        image.refuse_changed()
    except CampaignError as error:
        raise OverlayError(Reason.SOURCE, str(error)) from None
    contents = {SAMPLER: image.contents[SAMPLER], RUNNER: _runner(image)}
    for name, content in contents.items():
        digest = hashlib.sha256(content).hexdigest()
        if digest != pinned[name].source:
            raise OverlayError(
                Reason.SOURCE, f"{name} of vllm {image.version} has sha256 {digest}, the release {pinned[name].source}"
            )
    return image, contents


def runner_in(wheel: Path, version: str) -> dict[str, bytes]:
    """The runner's file of a wheel, by name; nothing of a version without overlays."""
    if public(version) not in OVERLAYS:
        return {}
    with zipfile.ZipFile(wheel) as archive:
        return {RUNNER: archive.read(RUNNER)}


def beside(folder: Path) -> Path:
    """Where `make image` keeps the runner's file of the version whose folder this is."""
    return folder.with_name(f"{folder.name}{BESIDE}")


def _runner(image: Image) -> bytes:
    if image.where is Where.WHEEL:
        with zipfile.ZipFile(image.place) as wheel:
            if RUNNER in wheel.namelist() and wheel.getinfo(RUNNER).file_size <= LARGEST_FILE:
                return wheel.read(RUNNER)
    for folder in (image.place, beside(image.place)):
        path = folder / RUNNER
        if path.is_file() and path.stat().st_size <= LARGEST_FILE:
            return path.read_bytes()
    raise OverlayError(
        Reason.SOURCE,
        f"{RUNNER} is not in {image.place}, nor in the folder {beside(image.place).name} beside it:"
        f" make image VERSION={public(image.version)} fetches it, --image names a wheel that has it",
    )
