"""The functions of scipy.special, the same objects, without what that package loads beside them: it prepares each for
other libraries' arrays and their documentation, which takes as long as judging a receipt.

    from pp3.harness.special import special

Where scipy.special is loaded already, or is built otherwise, it is `special` itself. It can be loaded later as ever.
"""

import importlib
import importlib.util
import sys
from typing import Any


def _functions() -> Any:
    """The compiled module that scipy.special takes its functions from, or scipy.special."""
    name = "scipy.special"
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None:
        return importlib.import_module(name)
    sys.modules[name] = importlib.util.module_from_spec(spec)  # only for its modules to be found in
    try:
        return importlib.import_module(f"{name}._ufuncs")
    except ImportError:
        pass
    finally:
        del sys.modules[name]
    return importlib.import_module(name)


special = _functions()
