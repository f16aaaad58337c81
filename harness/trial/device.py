"""Where a trial runs: the device, and what it is in plain strings."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pp3.harness.backends import processor
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.samplers.contract import Description

INTERPRETER = "triton.runtime.interpreter"
INTERPRETED = {"interpreter": "1"}


def choose(device: str) -> str:
    """auto is a GPU where there is one. PP3Error (69) for a GPU that is not there."""
    from pp3.harness.backends import cuda_available

    if device == "cpu":
        return device
    if cuda_available():
        return "cuda"
    if device == "cuda":
        raise PP3Error("no CUDA GPU is visible: use --device cpu", Exit.UNAVAILABLE)
    return "cpu"


def gpus(device: str) -> list[str]:
    """Every GPU that processes can be dealt to, as CUDA_VISIBLE_DEVICES names it; none where one is all there is."""
    if not device.startswith("cuda"):
        return []
    import torch

    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    count = torch.cuda.device_count()
    found = named[:count] if named else [str(number) for number in range(count)]
    return found if len(found) > 1 else []


def survives(device: str) -> bool:
    """Whether the device can still be used by this process: an illegal address on a GPU spoils it for good."""
    if not device.startswith("cuda"):
        return True
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


@contextmanager
def launches() -> Iterator[Callable[[], bool]]:
    """Asks whether a kernel was launched in Triton's interpreter meanwhile; importing Triton is no launch.

    What it rewrote before is put aside, so that a first launch shows, and given back.
    """
    aside = dict(_rewritten())
    _rewritten().clear()
    try:
        yield lambda: bool(_rewritten())
    finally:
        _rewritten().update(aside)


def _rewritten() -> dict[Any, Any]:
    """The functions that the interpreter has rewritten, as it does at their first launch."""
    runtime = sys.modules.get(INTERPRETER)
    found: dict[Any, Any] = {} if runtime is None else runtime.InterpretedFunction.rewritten_fn
    return found


def interpreted(who: Description, launched: bool) -> bool:
    """Whether a sampler's numbers are the interpreter's: as it declares its backend, else as was seen."""
    return who.backend == "interpreter" if who.backend else launched


def identity(device: str, interpreted: bool = False) -> dict[str, str]:
    """Versions, the GPU's or the processor's name, and whether kernels ran in Triton's interpreter."""
    found = {"backend": "cuda" if device.startswith("cuda") else "cpu", "python": platform.python_version()}
    for package in ("numpy", "torch", "triton"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    if not device.startswith("cuda"):
        return found | {"processor": processor()} | (INTERPRETED if interpreted else {})
    import torch

    properties = torch.cuda.get_device_properties(0)
    return found | {
        "gpu": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "cuda": str(torch.version.cuda),
        "torch": str(torch.__version__),
        **(INTERPRETED if interpreted else {}),
    }


def name_of(said: dict[str, str]) -> str:
    """What a sentence calls it."""
    where = said.get("gpu", "a GPU") if said["backend"] == "cuda" else "a CPU"
    return f"{where} in Triton's interpreter" if said.get("interpreter") else where
