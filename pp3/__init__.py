"""PP3: does this GPU sampler emit the law it claims? Imports neither torch nor triton."""

__version__ = "0.1.0"
