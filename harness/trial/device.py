"""Where a trial runs: the device, and what it is in plain strings."""

import importlib.metadata
import os
import platform

from pp3.harness.errors import Exit, PP3Error


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


def identity(device: str, triton: bool = False) -> dict[str, str]:
    """Versions, and the GPU's name; on a CPU, with `triton` in use, whether it is interpreted."""
    found = {"backend": "cuda" if device.startswith("cuda") else "cpu", "python": platform.python_version()}
    for package in ("numpy", "torch", "triton"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    if not device.startswith("cuda"):
        return found | ({"interpreter": "1"} if triton and os.environ.get("TRITON_INTERPRET") == "1" else {})
    import torch

    properties = torch.cuda.get_device_properties(0)
    return found | {
        "gpu": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "cuda": str(torch.version.cuda),
        "torch": str(torch.__version__),
    }


def name_of(said: dict[str, str]) -> str:
    """What a sentence calls it."""
    if said["backend"] == "cuda":
        return said.get("gpu", "a GPU")
    return "a CPU in Triton's interpreter" if said.get("interpreter") else "a CPU"
