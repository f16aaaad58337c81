"""Who an exact receipt judges, and what its own fields say against him before any integer is looked at."""

from typing import Any

BACKENDS = ("reference", "cuda")


def judged(sampler: dict[str, Any], kernels: dict[str, Any]) -> str:
    """The subject of the sentence."""
    who = f"{sampler['name']} {sampler['version']}"
    if sampler["backend"] == "cuda":
        return f"the Triton kernels of {who} on {kernels['identity'].get('gpu', 'a GPU')}"
    return f"the NumPy reference of {who}"


def kernel_faults(sampler: dict[str, Any], kernels: dict[str, Any]) -> list[str]:
    """A backend that cannot be judged so, another one in the identity, or known answers missed or missing."""
    backend, identity = sampler["backend"], kernels["identity"].get("backend")
    wrong = (
        [] if backend in BACKENDS else [f"backend {backend} is judged by no enumeration; want {', '.join(BACKENDS)}"]
    )
    wrong += [] if identity == backend else [f"the identity is that of {identity}, the sampler ran on {backend}"]
    for row in kernels["conform"]:
        if row["passed"] != row["total"] or not row["total"]:
            wrong.append(f"known answers of {row['file']}: {row['passed']} of {row['total']} passed")
    return wrong
