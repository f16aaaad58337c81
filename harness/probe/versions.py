"""The versions of the peers that a probe timed; those of vLLM and SGLang name files whose digests are pinned."""

import importlib
from collections.abc import Sequence
from typing import Any


def versions(measured: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Package to version, of every package that a timed peer is of."""
    timed = {timing["id"].partition("-")[0] for row in measured for timing in row["timings"]}
    return {package: _of(package) for package in ("flashinfer", "sglang", "torch", "vllm") if package in timed}


def _of(package: str) -> str:
    known = {"vllm": "pp3.harness.image.pins", "sglang": "pp3.harness.samplers.sglang_file"}
    if package in known:
        return str(importlib.import_module(known[package]).DEFAULT)
    return str(importlib.import_module(package).__version__)
