"""Python, PP3 and the packages it needs or can use; versions are read, nothing is imported."""

import importlib.metadata
import json
import platform
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from pp3 import __version__
from pp3.harness.doctor.line import Line, fine, note, problem
from pp3.harness.paths import find_checkout, find_vectors

PYTHON = (3, 11)
CORE = ("numpy", "scipy", "msgspec", "click", "rich")
KERNELS = ("torch", "triton")
EXTRAS = {  # what brings each, and what for
    "jinja2": ("report", "pages"),
    "matplotlib": ("report", "pages"),
    "pandas": ("report", "pages"),
    "libcst": ("image", "vLLM's files and overlays"),
    "distributed": ("dask", "campaigns on Dask"),
    "transformers": ("engine", "whole engines"),
    "flashinfer-python": ("", "FlashInfer's samplers, on a GPU"),
}
LOWEST = re.compile(r"^([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)")


def lines() -> Iterator[Line]:
    """Python, PP3, what it needs, what it can use."""
    version = platform.python_version()
    if sys.version_info < PYTHON:
        yield problem("python", f"{version}; 3.11 or newer is needed", "make PYTHON=python3.11")
    else:
        yield fine("python", f"{version} on {platform.system()} {platform.machine()}")
    yield _ours()
    lowest = required()
    for names, extra in ((CORE, ""), (KERNELS, "kernels")):
        for name in names:
            yield _needed(name, lowest.get(name, "0"), extra)
    for name, (extra, why) in EXTRAS.items():
        yield _optional(name, extra, why)


def required() -> dict[str, str]:
    """Lowest version of each package that PP3's own metadata names; {} where it is not installed."""
    try:
        requirements = importlib.metadata.requires("pp3") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    return {found[1]: found[2] for text in requirements if (found := LOWEST.match(text))}


def version_of(name: str) -> str | None:
    """The installed version of a distribution that can be found for import; None if it cannot."""
    module = {"flashinfer-python": "flashinfer"}.get(name, name)
    try:
        return importlib.metadata.version(name) if find_spec(module) else None
    except (importlib.metadata.PackageNotFoundError, ImportError, ValueError):
        return None


def _ours() -> Line:
    """How PP3 is installed, and whether its known answers are there."""
    if find_vectors() is None:
        return problem(
            "pp3", f"{__version__} without its known answers (tests/vectors)", "pip install --force-reinstall pp3"
        )
    return fine("pp3", f"{__version__}, {_how()}")


def _how() -> str:
    """A checkout, editable or not, or a wheel."""
    checkout = find_checkout() is not None
    try:
        text = importlib.metadata.distribution("pp3").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return "from a checkout on the path, not installed" if checkout else "on the path, not installed"
    if not checkout:
        return "installed"
    editable = text is not None and json.loads(text).get("dir_info", {}).get("editable", False)
    return "installed editable from a checkout" if editable else "from a checkout"


def _needed(name: str, lowest: str, extra: str) -> Line:
    """A package without which no campaign runs."""
    fix = f"pip install 'pp3[{extra}]'" if extra else f"pip install '{name}>={lowest}'"
    found = version_of(name)
    if found is None:
        what = "the kernels do not run here, and no campaign of theirs passes" if extra else "nothing runs"
        return problem(name, f"not installed: {what}", fix)
    if _numbers(found) < _numbers(lowest):
        return problem(name, f"{found}; {lowest} or newer is needed", fix)
    return fine(name, found)


def _optional(name: str, extra: str, why: str) -> Line:
    """A package that something can do without."""
    found = version_of(name)
    if found:
        return fine(name, found)
    return note(name, f"not installed: no {why}", f"pip install 'pp3[{extra}]'" if extra else f"pip install {name}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
