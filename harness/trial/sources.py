"""Which files and packages made a foreign sampler's numbers: found by the harness, not told by the sampler."""

import hashlib
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError
from pp3.harness.samplers.contract import Description

LOADER = "pp3.harness.image.load"
INSTALLED = ("site-packages", "dist-packages")


def of_sampler(sampler: Any, who: Description, before: set[str]) -> dict[str, Any]:
    """Files that were loaded for a sampler from its own folder, by name and SHA-256, its image, and its packages.

    before: names of the modules that were loaded before it was. Files that the sampler names itself (an image's
    members, loaded and taken away again) are listed as it says.
    """
    home = who.module or type(sampler).__module__
    own = _file(home)
    files = {f"said: {name}": digest for name, digest in who.files}
    packages: dict[str, str] = {}
    distributions = importlib.metadata.packages_distributions()
    for name in sorted(set(sys.modules) - before | {home}):
        path = _file(name)
        if path is None:
            continue
        if set(INSTALLED) & set(path.parts) and not name.startswith("pp3."):
            for distribution in distributions.get(name.partition(".")[0], []):
                packages[distribution] = importlib.metadata.version(distribution)
        elif own is not None and path.is_relative_to(own.parent):
            files[path.relative_to(own.parent).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "files": [list(pair) for pair in sorted(files.items())],
        "image": image_of(sampler),
        "packages": dict(sorted(packages.items())),
    }


def image_of(sampler: Any) -> dict[str, Any] | None:
    """How the vLLM image that a sampler keeps as an attribute was loaded, or None. CampaignError for more than one.

    The loader is asked for by name: only what uses an image binds it.
    """
    if LOADER not in sys.modules:
        return None
    kind = sys.modules[LOADER].Loaded
    found = {id(value): value for value in getattr(sampler, "__dict__", {}).values() if isinstance(value, kind)}
    if len(found) > 1:
        raise CampaignError(f"{type(sampler).__name__} keeps {len(found)} vLLM images; a receipt holds one: make two")
    plain: list[dict[str, Any]] = [one.plain() for one in found.values()]
    return plain[0] if plain else None


def _file(module: str) -> Path | None:
    path = getattr(sys.modules.get(module), "__file__", None)
    return Path(path).resolve() if path and Path(path).is_file() else None
