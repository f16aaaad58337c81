"""Load torch and triton, run one kernel, say how it went: `python -m pp3.harness.doctor.child`, a process of its own.

What breaks in here, an import or a compiler, breaks no diagnosis. Prints one JSON object.
"""

import json
import os
import time
from typing import Any


def look() -> dict[str, Any]:
    """Versions, device and the seconds of a first launch."""
    import torch

    gpu = torch.cuda.is_available()
    found: dict[str, Any] = {"cuda": torch.version.cuda or "", "gpu": ""}
    if gpu:
        major, minor = torch.cuda.get_device_capability(0)
        found |= {"gpu": torch.cuda.get_device_name(0), "capability": f"{major}.{minor}"}
        found["gpus"] = torch.cuda.device_count()
        os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    else:
        os.environ["TRITON_INTERPRET"] = "1"
    from pp3.harness.doctor import small_kernel

    begun = time.perf_counter()
    right = small_kernel.right("cuda" if gpu else "cpu")
    return found | {"right": right, "seconds": time.perf_counter() - begun}


def main() -> None:
    """Print what was found, or the last line of what went wrong."""
    try:
        said = look()
    except Exception as error:  # of any kind: it is what the diagnosis is about
        text = str(error).strip().splitlines() or [""]
        said = {"error": f"{type(error).__name__}: {text[0]}"}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
