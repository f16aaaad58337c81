"""What a trial's receipt says of the vLLM image that its sampler was loaded from, held against the rest of it."""

from typing import Any

from pp3.harness.errors import VerificationError
from pp3.harness.image.pins import PINS, public

SAID = "said: "  # before the name of a file that the sampler named itself


def check(sampler: dict[str, Any]) -> None:
    """VerificationError unless the image is that of the sampler's version, its files those listed and pinned.

    A receipt without one is left alone: its sampler has none, or it is older than the field.
    """
    image = sampler.get("image")
    if not image:
        return
    if image["version"] != sampler["version"]:
        raise VerificationError(f"plan: the image is vllm {image['version']}, the sampler says {sampler['version']}")
    files = {file["name"]: file["sha256"] for file in image["files"]}
    listed = {name.removeprefix(SAID): digest for name, digest in sampler["files"] if name.startswith(SAID)}
    if files != listed:
        odd = sorted(dict(files.items() ^ listed.items()))
        raise VerificationError(f"plan: {odd[0]} is not the same in the image and among the sampler's files")
    pin = PINS.get(public(image["version"]))
    for name, digest in files.items():
        if pin is not None and pin.files.get(name) != digest:
            raise VerificationError(f"plan: {name} is {digest}, the pin of vllm {image['version']} another")
