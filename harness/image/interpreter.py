"""What Triton's interpreter lacks to run the image's kernels. No file of vLLM is touched, and no GPU run uses this.

- log1p: `libdevice.log1p` is an empty stub there (triton issue 8825), so NumPy's stands in for it: the interpreter
  shows algorithm and wiring, not a GPU's arithmetic.
- masks: a block mask combined with a scalar comparison becomes int32, which a masked load or store then refuses.
- loops: the variable of a `tl.range` loop is a Python int there, and a tensor on a GPU.
"""

import ast
import functools
import importlib
import os
from types import ModuleType
from typing import Any

import numpy as np

from pp3.harness.interpreter import settle

MENDED = ("log1p", "loops", "masks")


def active() -> bool:
    """Whether kernels decorated now run in the interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def mend() -> tuple[str, ...]:
    """Mend this process's interpreter, once; the names of what was."""
    settle()
    runtime = importlib.import_module("triton.runtime.interpreter")
    _cast_masks(runtime)
    _wrap_loop_variables(runtime.ASTTransformer)
    return MENDED


def numpy_libdevice() -> ModuleType:
    """A libdevice with one function, log1p."""
    core = importlib.import_module("triton.language.core")
    handle = importlib.import_module("triton.runtime.interpreter").TensorHandle

    def log1p(x: Any) -> Any:
        with np.errstate(all="ignore"):  # masked lanes hold anything
            values = np.log1p(x.handle.data).astype(x.handle.data.dtype)
        return core.tensor(handle(values, x.handle.dtype), x.type)

    module = ModuleType("numpy_libdevice")
    module.log1p = log1p  # type: ignore[attr-defined]  # a module's content is set at run time
    return module


def _cast_masks(runtime: ModuleType) -> None:
    int1 = importlib.import_module("triton.language").int1
    builder = runtime.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def boolean(mask: Any) -> Any:
        return mask if mask.data.dtype == np.bool_ else runtime.TensorHandle(mask.data.astype(np.bool_), int1)

    def create_masked_load(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        return load(self, pointers, boolean(mask), *rest, **named)

    def create_masked_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        return store(self, pointers, value, boolean(mask), *rest, **named)

    builder.create_masked_load, builder.create_masked_store = create_masked_load, create_masked_store


def _wrap_loop_variables(transformer: Any) -> None:
    def visit_for(self: Any, node: ast.For) -> ast.For:
        self.generic_visit(node)
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "range" and isinstance(node.target, ast.Name):
            name = node.target.id
            node.body[:0] = ast.parse(f"{name} = interpreter_semantic.to_tensor({name}, False)").body
        return node

    transformer.visit_For = visit_for
