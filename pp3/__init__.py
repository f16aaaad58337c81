"""PP3: does this GPU sampler emit the law it claims? Imports neither torch nor triton."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Batch", "Description", "Emission", "Report", "Sampler", "__version__", "qualify"]

if TYPE_CHECKING:
    from pp3.harness.samplers.contract import Batch, Description, Emission, Sampler
    from pp3.harness.trial.api import Report, qualify

HOMES = {"qualify": "pp3.harness.trial.api", "Report": "pp3.harness.trial.api"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'pp3' has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(HOMES.get(name, "pp3.harness.samplers.contract")), name)
