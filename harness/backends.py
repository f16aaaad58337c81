"""One arithmetic, three places: the NumPy reference, the kernels in Triton's interpreter, the kernels on a GPU.

Each backend takes and gives NumPy arrays, so that a check reads the same for all. Importing this module loads neither
torch nor triton.
"""

import hashlib
import os
import platform
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pp3.harness import interpreter
from pp3.harness.errors import Exit, PP3Error
from pp3.kernels import reference

Array = npt.NDArray[Any]
NO_GPU = "no CUDA GPU is visible: use --device cpu, or with pp3 conform --backend interpreter"


class Backend(StrEnum):
    """Where the sampler runs."""

    REFERENCE = "reference"
    INTERPRETER = "interpreter"
    CUDA = "cuda"


class Dtype(StrEnum):
    """Storage of logits; the values are handed over as FP32, exact in all three."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"


class Arithmetic(Protocol):
    """The two functions under test, on NumPy arrays; u64 arrays for keys, rounds and positions."""

    def propose(
        self, logits: Array, dtype: Dtype, sampled: Array, keys: Array, rounds: Array, positions: Array, tau: float
    ) -> reference.Proposal:
        """Logits [n, V] FP32, exact in `dtype`, to one draft a row."""

    def verify(
        self,
        target_probs: Array,
        draft_ids: Array,
        support: Array | None,
        tickets: Array | None,
        sampled: Array,
        keys: Array,
        rounds: Array,
        positions: Array,
    ) -> reference.Verification:
        """One round a request, as reference.verify."""


class Reference:
    """The NumPy reference."""

    def propose(
        self, logits: Array, dtype: Dtype, sampled: Array, keys: Array, rounds: Array, positions: Array, tau: float
    ) -> reference.Proposal:
        """See Arithmetic."""
        return reference.propose(logits, sampled, keys, rounds, positions, tau)

    verify = staticmethod(reference.verify)


class Kernels:
    """The Triton kernels through the launchers that users call."""

    def __init__(self, device: str) -> None:
        import torch

        self.device = torch.device(device)

    def propose(
        self, logits: Array, dtype: Dtype, sampled: Array, keys: Array, rounds: Array, positions: Array, tau: float
    ) -> reference.Proposal:
        """See Arithmetic."""
        import torch

        from pp3.kernels import proposal

        storage = {Dtype.BF16: torch.bfloat16, Dtype.FP16: torch.float16, Dtype.FP32: torch.float32}[dtype]
        with np.errstate(all="ignore"):  # in the interpreter the kernel's masked lanes are NumPy's
            drafts = proposal.propose(
                torch.tensor(np.ascontiguousarray(logits)).to(self.device).to(storage),
                self._int32(sampled),
                self._int64(keys),
                self._int64(rounds),
                self._int64(positions),
                tau,
            )
        status, token, ids, tickets = (t.cpu().numpy() for t in drafts)
        return reference.Proposal(status, token[:, 0], ids[:, 0], tickets[:, 0])

    def verify(
        self,
        target_probs: Array,
        draft_ids: Array,
        support: Array | None,
        tickets: Array | None,
        sampled: Array,
        keys: Array,
        rounds: Array,
        positions: Array,
    ) -> reference.Verification:
        """See Arithmetic."""
        import torch

        from pp3.kernels import verifier

        with np.errstate(all="ignore"):
            verified = verifier.verify(
                torch.tensor(np.ascontiguousarray(target_probs)).to(self.device),
                self._int32(draft_ids),
                None if support is None else self._int32(support),
                None if tickets is None else self._int32(tickets),
                self._int32(sampled),
                self._int64(keys),
                self._int64(rounds),
                self._int64(positions),
            )
        return reference.Verification(*(t.cpu().numpy() for t in verified))

    def _int32(self, values: Array) -> Any:
        import torch

        return torch.tensor(np.ascontiguousarray(values), dtype=torch.int32).to(self.device)

    def _int64(self, values: Array) -> Any:
        import torch

        return torch.tensor(np.ascontiguousarray(values).view(np.int64)).to(self.device)


def start(backend: Backend) -> Arithmetic:
    """Open a backend. PP3Error (69) if this process cannot run it."""
    if backend is Backend.REFERENCE:
        return Reference()
    if backend is Backend.INTERPRETER:
        if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
            raise PP3Error("triton is loaded already: the interpreter needs a process of its own", Exit.UNAVAILABLE)
        os.environ["TRITON_INTERPRET"] = "1"
        _need_kernels()
        interpreter.settle()
        return Kernels("cpu")
    _need_kernels()
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise PP3Error("TRITON_INTERPRET=1 is set: unset it to compile for a GPU", Exit.UNAVAILABLE)
    if not cuda_available():
        raise PP3Error(NO_GPU, Exit.UNAVAILABLE)
    return Kernels("cuda")


def cuda_available() -> bool:
    """Whether torch is installed and sees a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def _need_kernels() -> None:
    try:
        import torch
        import triton
    except ImportError as error:
        raise PP3Error(
            f"{error.name} is not installed, and the kernels need it: pip install 'pp3[kernels]'", Exit.UNAVAILABLE
        ) from None
    del torch, triton


def identity(backend: Backend) -> dict[str, str]:
    """What the sampler ran on: versions, name of the GPU or the processor, the digest of the compiled kernels."""
    found = {"backend": backend.value, "numpy": np.__version__, "python": ".".join(map(str, sys.version_info[:3]))}
    if backend is not Backend.CUDA:
        found["processor"] = processor()
    if backend is Backend.REFERENCE:
        return found
    import torch
    import triton

    found |= {"torch": str(torch.__version__), "triton": str(triton.__version__)}
    if backend is Backend.CUDA:
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "gpu": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": str(properties.multi_processor_count),
            "cuda": str(torch.version.cuda),
            "compiled_kernels_sha256": compiled_digest(),
        }
    return found


def processor() -> str:
    """The model of this machine's processor, as it names itself, or else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return model or platform.processor() or platform.machine()


def compiled_digest() -> str:
    """SHA-256 over the sorted digests of every kernel binary compiled in this process."""
    from pp3.kernels import groups, proposal, rejection, row_sums, search, selector, walk

    kernels = [proposal._tile_candidates, search.largest_of_rows, proposal._allocate_and_draw]
    kernels += [groups.group_bests, selector.select_and_draw]
    kernels += [row_sums.tile_masses, rejection.walk_and_emit, walk.judge_and_emit]
    binaries = []
    for kernel in kernels:
        for cache in kernel.device_caches.values():
            binaries += [hashlib.sha256(compiled.asm["cubin"]).hexdigest() for compiled in cache[0].values()]
    return hashlib.sha256("\n".join(sorted(binaries)).encode()).hexdigest()
