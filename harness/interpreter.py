"""Triton's interpreter, less what it does again at every call.

It puts functions of its own in the place of the language's, for a launch and for every function that a kernel calls on
its way, by going through all of the language each time: nearly half of what a launch takes. Here they are put there
once for each function and stay, as those of a called function do anyway. What a kernel computes is untouched.
"""

import functools
import importlib
from typing import Any


@functools.cache
def settle() -> None:
    """Settle this process's interpreter, once; a Triton whose interpreter is built otherwise is left as it is."""
    runtime = importlib.import_module("triton.runtime.interpreter")
    patch, scope = getattr(runtime, "_patch_lang", None), getattr(runtime, "_LangPatchScope", None)
    if patch is None or scope is None:
        return
    settled: set[Any] = set()

    def patch_once(function: Any) -> Any:
        if function not in settled:
            patch(function)
            settled.add(function)
        return scope()

    runtime._patch_lang = patch_once  # type: ignore[attr-defined]
