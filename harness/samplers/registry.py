"""Samplers by name: those built in, those that installed packages offer, and any object in a module or a file.

Looking one up imports nothing of it; `missing` says why one cannot run here.
"""

import difflib
import importlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError, PP3Error
from pp3.harness.image import cache
from pp3.harness.image.pins import public

GROUP = "pp3.samplers"
HOME = "pp3.harness.samplers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One sampler that has a name."""

    name: str
    target: str  # module:object
    about: str
    needs: tuple[str, ...] = ()  # modules that must be found
    image: str = ""  # version of vLLM whose files it needs
    gpu: bool = False
    version: str = ""  # of the first needed package that the adapter is written for; "" for any
    absent: str = ""  # module:function that says why its file is not here, or ""
    requests: int = 0  # of each law, the most that a survey runs a slow one with; 0: as many as the others
    slow: str = ""  # why a survey leaves it out unless it is named,
    slow_on: tuple[str, ...] = ()  # and on which devices


def built_in() -> list[Entry]:
    """Every sampler that comes with pp3."""
    from pp3.harness.samplers.catalogue import CATALOGUE

    return list(CATALOGUE)


def everything() -> dict[str, Entry]:
    """Built-in samplers, then entry points of installed packages; a name that is taken twice is an error."""
    found = {entry.name: entry for entry in built_in()}
    for point in entry_points(group=GROUP):
        if point.name in found:
            raise CampaignError(
                f"sampler {point.name!r} of {point.value} is taken; its package must choose another name"
            )
        found[point.name] = Entry(name=point.name, target=point.value, about=f"from {point.value.partition(':')[0]}")
    return found


def find(name: str) -> Entry:
    """The entry of a name, of `module:object` or of `file.py:object`. CampaignError names the nearest."""
    known = everything()
    if name in known:
        return known[name]
    if ":" in name:
        return Entry(name=name, target=name, about="given by the user")
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else "`pp3 samplers` lists them; your own is module:object"
    if name.endswith(".py"):
        hint = f"name the object in it too, as in {name}:MySampler"
    raise CampaignError(f"unknown sampler {name!r}; {hint}")


def load(entry: Entry, image: Path | None = None) -> Any:
    """The sampler object: an instance as it is, a class or a function called without arguments.

    CampaignError if it cannot be imported or made; the message ends with the reason. PP3Error (69) without its image.
    """
    if image is not None and not entry.image:
        raise CampaignError(f"--image {image}: sampler {entry.name} takes none")
    where, _, name = entry.target.partition(":")
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else _module(where)
    except CampaignError:
        raise
    except (Exception, SystemExit) as error:
        raise CampaignError(
            f"sampler {entry.name}: importing {where} raised {type(error).__name__}: {error}"
        ) from error
    try:
        found: Any = module
        for part in (name or "sampler").split("."):
            found = getattr(found, part)
    except AttributeError:
        near = difflib.get_close_matches(name, dir(module), 1)
        raise CampaignError(
            f"sampler {entry.name}: {where} has no {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        ) from None
    if isinstance(found, type) or (callable(found) and not hasattr(found, "describe")):
        found = _made(entry, found, image)
    return found


def missing(entry: Entry, gpu: bool) -> str:
    """Why a sampler cannot run here, or "". Imports nothing of it."""
    for module in entry.needs:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    if entry.gpu and not gpu:
        return "needs a CUDA GPU"
    if entry.absent:
        where, _, name = entry.absent.partition(":")
        return str(getattr(importlib.import_module(where), name)())
    return _no_image(entry.image) if entry.image else ""


def _no_image(version: str) -> str:
    """Why vLLM's files of a version are not here, or "". Its metadata are read, nothing of it is imported."""
    try:
        installed = public(importlib.metadata.version("vllm"))
    except importlib.metadata.PackageNotFoundError:
        installed = ""
    folder = cache.default_folder()
    if installed == version or (folder is not None and (folder / version).is_dir()):
        return ""
    return f"vllm {version} is neither installed nor fetched: make image VERSION={version}"


def _made(entry: Entry, maker: Callable[..., Any], image: Path | None) -> Any:
    """Call a class or a factory; those of the catalogue that need an image are told where it lies and which it is."""
    try:
        return maker(image, entry.image) if entry.image else maker()
    except PP3Error:
        raise
    except (Exception, SystemExit) as error:
        raise CampaignError(f"sampler {entry.name}: making it raised {type(error).__name__}: {error}") from error


def _module(name: str) -> Any:
    """Import a module; the current folder is searched too, as the user wrote the name there."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


def _from_file(path: Path) -> Any:
    """Import a file; its own folder is searched too."""
    if not path.is_file():
        raise CampaignError(f"{path}: no such file")
    name, folder = _free_name(path), str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _free_name(path: Path) -> str:
    """A module name for a file that hides no other module: its own, if it can be one and none has it."""
    if path.stem.isidentifier() and path.stem not in sys.modules:
        found = importlib.util.find_spec(path.stem)
        if found is None or found.origin == str(path.resolve()):
            return path.stem
    return f"_of_the_user_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}"
