"""What every adapter of vLLM needs: a part of a pinned image, and its functions called by parameters that are known.

Shared by the adapters of one engine and nobody else.
"""

import inspect
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.image import interpreter
from pp3.harness.image.find import find
from pp3.harness.image.load import Loaded, load
from pp3.harness.image.pins import Part
from pp3.harness.samplers.contract import Batch, Description

INTERPRETED_ROWS = 49  # a launch in the interpreter: a few seconds; coprime to 2 and 3 starts, so that rows change


def open_part(image: Path | None, version: str, part: Part) -> Loaded:
    """A part of the image of this version: at a path, or where `find` looks without one.

    CampaignError (2) for another version or a changed file; PP3Error (69) without an image, or without a GPU and the
    interpreter.
    """
    if not interpreter.active() and not torch.cuda.is_available():
        raise PP3Error(
            "vLLM's kernels need a CUDA GPU: give --device cpu, or set TRITON_INTERPRET=1 before Python starts",
            Exit.UNAVAILABLE,
        )
    return load(find(image, version), part)


class Function:
    """One function: an entry of the part, or of a module that vLLM names so.

    CampaignError if it has a parameter that is neither given by the adapter nor knowingly left.
    """

    def __init__(
        self, loaded: Loaded, entry: str, given: Collection[str], left: Collection[str] = (), module: str = ""
    ) -> None:
        self.name = f"{entry} of vllm {loaded.version}"
        self._function = getattr(loaded.modules[module], entry) if module else loaded.entries[entry]
        parameters = inspect.signature(self._function).parameters
        self.parameters = frozenset(parameters)
        unknown = [name for name in parameters if name not in given and name not in left]
        if unknown:
            raise CampaignError(f"{self.name} takes {', '.join(unknown)}, which this adapter does not know")
        needed = [name for name, one in parameters.items() if one.default is one.empty and name not in given]
        if needed:
            raise CampaignError(f"{self.name} needs {', '.join(needed)}, which this adapter leaves out")

    def __call__(self, **arguments: Any) -> Any:
        """Call it; in the interpreter NumPy's complaints about masked lanes are silenced."""
        unknown = [name for name in arguments if name not in self.parameters]
        if unknown:
            raise CampaignError(f"{self.name} has no parameter {', '.join(unknown)}")
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return self._function(**arguments)


def describe(loaded: Loaded, name: str, **declared: Any) -> Description:
    """What every adapter says: the version, the image's files, and launches that suit the device."""
    return Description(
        name=name,
        version=loaded.version,
        files=tuple(sorted(loaded.files.items())),
        rows_per_launch=INTERPRETED_ROWS if interpreter.active() else 0,
        **declared,
    )


@contextmanager
def seeded(batch: Batch) -> Iterator[None]:
    """torch's own generators seeded by the batch, for functions that draw from nothing else; restored afterwards."""
    devices = [batch.tensors.device] if batch.tensors.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(batch.generator.initial_seed())
        yield
