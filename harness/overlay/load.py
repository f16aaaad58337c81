"""Load the overlays of an image, and the image itself beside them, without vLLM.

The sampler overlay takes the place of its file among the image's, loaded as the image is (harness/image/load.py). The
runner overlay is run by itself: what it imports of vLLM is the overlay, Triton, or a name that raises when it is used.
Neither vLLM's engine nor its classic sampler is ever loaded.
"""

import builtins
import hashlib
import linecache
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from pp3.harness.errors import PP3Error
from pp3.harness.image import shims
from pp3.harness.image.find import Image, Member, Where
from pp3.harness.image.load import Loaded, load
from pp3.harness.image.pins import Part, public
from pp3.harness.overlay import prepare
from pp3.harness.overlay.pins import MARKERS, RUNNER, RUNNER_MARKER, SAMPLER, SAMPLER_MARKER
from pp3.harness.overlay.refusal import OverlayError, Reason
from pp3.harness.overlay.sources import checked

VERIFIER_MODULE = SAMPLER.removesuffix(".py").replace("/", ".")
RUNNER_MODULE = RUNNER.removesuffix(".py").replace("/", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An image with its overlays, ready to be called."""

    version: str
    image: Loaded  # the release
    overlay: Loaded  # the release with the sampler overlay
    runner: Any  # RejectionSampler of the runner overlay
    attestation: dict[str, Any]


def open_overlay(image: Path | None, folder: Path) -> Opened:
    """The overlays of a folder over the image they were made of. OverlayError if either is not as it was reviewed."""
    attestation, contents = prepare.read(folder)
    found, _ = checked(image)
    version = public(found.version)
    if version != attestation["vllm"]:
        raise OverlayError(
            Reason.ATTESTATION,
            f"{folder} was made of vllm {attestation['vllm']}, the image is {version}: give that one",
        )
    overlay = load(_with(found, contents[SAMPLER], folder), Part.V2)
    names = run_runner(contents[RUNNER], folder / RUNNER, overlay)
    sampler = overlay.modules[VERIFIER_MODULE]
    markers = {SAMPLER_MARKER: getattr(sampler, SAMPLER_MARKER, None), RUNNER_MARKER: names.get(RUNNER_MARKER)}
    if markers != MARKERS:
        raise OverlayError(Reason.ATTESTATION, f"{folder}: the markers loaded are {markers}")
    return Opened(
        version=version,
        image=load(found, Part.V2),
        overlay=overlay,
        runner=names["RejectionSampler"],
        attestation=attestation,
    )


def run_runner(content: bytes, path: Path, overlay: Loaded) -> dict[str, Any]:
    """The names that the runner's file defines, over the overlay's sampler."""

    def importer(name: str, scope: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        if name != "vllm" and not name.startswith("vllm."):
            return builtins.__import__(name, scope, local, wanted, level)
        if name in overlay.modules:
            return overlay.modules[name]
        known = shims.contents().get(name, {})
        return SimpleNamespace(**{one: known.get(one, _unused(f"{name}.{one}")) for one in wanted})

    filename = str(path)
    linecache.cache[filename] = (len(content), None, content.decode("utf-8").splitlines(keepends=True), filename)
    names: dict[str, Any] = {
        "__builtins__": {**vars(builtins), "__import__": importer},
        "__file__": filename,
        "__name__": RUNNER_MODULE,
    }
    exec(compile(content, filename, "exec", dont_inherit=True), names)
    return names


def _with(image: Image, content: bytes, folder: Path) -> Image:
    """The image with the sampler overlay for its file; what it must hash to is what was reviewed (prepare.read)."""
    digest = hashlib.sha256(content).hexdigest()
    member = Member(name=SAMPLER, content=content, sha256=digest, recorded=digest, pinned=digest)
    place = folder.absolute()
    return replace(image, place=place, where=Where.CACHE, members={**image.members, SAMPLER: member})


def _unused(name: str) -> type:
    def raises(cls: type, *arguments: Any, **named: Any) -> NoReturn:
        raise PP3Error(f"{name} was called: it stands in for what the runner overlay never reaches here")

    return type(name.rpartition(".")[2], (), {"__new__": raises})
