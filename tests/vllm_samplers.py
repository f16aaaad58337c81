"""Samplers of vLLM's adapters and a batch for one."""

from functools import cache as once
from typing import Any

import pytest

from pp3.harness.image import cache
from pp3.harness.samplers import registry
from pp3.harness.samplers.contract import Batch, Description
from pp3.harness.seeds import Seed
from pp3.harness.trial import problems
from pp3.harness.trial.run import batch_of

REQUESTS = 6
SEED = Seed.of("5e" * 32, 1)


@once
def loaded(name: str) -> Any:
    """One object for all tests that ask for it."""
    return registry.load(registry.find(name))


def sampler_of(name: str) -> Any:
    """From the cache of images, or a named skip."""
    version = registry.find(name).image
    home = cache.default_folder()
    if home is None or not (home / version).is_dir():
        pytest.skip(f"no image of vllm {version} here: make image VERSION={version}")
    return loaded(name)


def problem_of(who: Description, target: str) -> problems.Problem:
    found, left = problems.choose(who, [target])
    assert found, left
    return found[0]


def batch_for(who: Description, target: str, count: int = REQUESTS) -> Batch:
    return batch_of(problem_of(who, target), who, SEED, 0, count, "cpu")
