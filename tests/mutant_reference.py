"""The reference with a fault in its source."""

import inspect
import types
from typing import Any

from pp3.kernels import reference


def mutant(old: str, new: str, **names: Any) -> Any:
    """The reference with one expression of its source replaced; by one that may use further names."""
    source = inspect.getsource(reference)
    assert source.count(old) == 1, old
    module = types.ModuleType("reference_mutant")
    vars(module).update(names)
    exec(compile(source.replace(old, new), "<mutant>", "exec"), vars(module))
    return module
