"""Run a sampler that nobody vouches for: whatever it does, the campaign goes on and says what happened.

Uninitialised memory is filled with illegal values while it runs, every input it was given is compared afterwards with
a fresh copy, and what it returns is checked before anything is counted.
"""

import os
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.samplers import contract, tensors
from pp3.harness.samplers.contract import Batch, Emission, Kind, Sampler
from pp3.harness.samplers.tensors import Tensors
from pp3.harness.tally import Tally
from pp3.harness.trial.sources import INSTALLED

OURS = (__file__, contract.__file__, tensors.__file__)
LONGEST = 300  # characters of an exception that are shown


class BreachError(Exception):
    """The sampler broke the contract; the message says how."""


def run(sampler: Sampler, batch: Batch, kind: Kind) -> Emission:
    """One batch, checked. BreachError if the sampler raises, changes an input or returns what cannot be counted.

    torch's global generators are seeded by the batch, and afterwards as they were.
    """
    process = os.getpid()
    try:
        with poisoned(), _seeded(batch):
            returned = sampler.run(batch)
            if batch.device.startswith("cuda"):
                torch.cuda.synchronize()
    except (Exception, SystemExit) as error:
        _not_memory(error)
        raise BreachError(raised(error)) from error
    finally:
        if os.getpid() != process:  # a child that the sampler forked came back too
            os._exit(0)
    try:
        _unchanged(batch)
        return _checked(returned, batch, kind)
    except BreachError:
        raise
    except Exception as error:
        _not_memory(error)
        raise BreachError(f"left what cannot be read: {raised(error)}") from error


def reset(sampler: Any) -> None:
    """Let a sampler that keeps state start anew. BreachError if it cannot."""
    if hasattr(sampler, "reset"):
        try:
            sampler.reset()
        except (Exception, SystemExit) as error:
            raise BreachError(f"reset() {raised(error)}") from error


def count(tally: Tally, batch: Batch, emission: Emission) -> None:
    """Count a batch. BreachError if not even that can be done, after what the sampler did to torch."""
    try:
        tally.add(batch, emission)
    except Exception as error:
        _not_memory(error)
        raise BreachError(f"left torch so that nothing can be counted: {raised(error)}") from error


def release(device: str) -> None:
    """Give unused memory back to those who share the GPU; a context that the sampler spoiled gives none."""
    if device.startswith("cuda"):
        with suppress(RuntimeError):  # trial/device.survives says so
            torch.cuda.empty_cache()


def _not_memory(error: BaseException) -> None:
    """PP3Error (69) for a GPU that is full: that is nobody's breach."""
    if isinstance(error, RuntimeError) and "CUDA" in str(error) and "out of memory" in str(error):
        said = " ".join(str(error).split())[:LONGEST]
        raise PP3Error(f"the GPU's memory is full: {said}; run fewer samplers at once", Exit.UNAVAILABLE) from error


def raised(error: BaseException) -> str:
    """An exception in one line, with the last place in the sampler's own code."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename not in OURS]
    own = [f for f in frames if not set(INSTALLED) & set(f.filename.split(os.sep))]
    said = " ".join(str(error).split())
    what = f"called sys.exit({said})" if isinstance(error, SystemExit) else f"raised {type(error).__name__}"
    place = (own or frames)[-1:]
    where = f" at {os.path.basename(place[0].filename)}:{place[0].lineno}" if place else ""
    detail = f": {said[:LONGEST]}" if said and not isinstance(error, SystemExit) else ""
    return f"{what}{where}{detail}"


@contextmanager
def poisoned() -> Iterator[None]:
    """Let torch fill uninitialised memory: integers with their largest value, floats with NaN."""
    before = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]  # a module property
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deterministic.*")
        torch.set_deterministic_debug_mode("warn")  # filling needs it; unlike its like, it imports no compiler
        torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]  # likewise
        try:
            yield
        finally:
            torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]  # likewise
            torch.set_deterministic_debug_mode(before)


@contextmanager
def _seeded(batch: Batch) -> Iterator[None]:
    """torch's global generators as this batch seeds them, apart from its own generator; afterwards as they were."""
    devices = [torch.cuda.current_device()] if batch.device.startswith("cuda") else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(batch.tensors.number("global"))
        yield


def _unchanged(batch: Batch) -> None:
    """BreachError if a tensor of the batch is not what a fresh batch would give."""
    fresh, same = Tensors(batch), {}
    for name, was in batch.tensors.given_out().items():
        now = getattr(fresh, name)
        if was.shape != now.shape or was.dtype != now.dtype or was.device != now.device:
            raise BreachError(f"changed its input {name}")
        same[name] = (was == now).all()
    if same:  # one look at the device for all of them: each would wait for it
        for name, equal in zip(same, torch.stack(list(same.values())).tolist(), strict=True):
            if not equal:
                raise BreachError(f"changed its input {name}")


def _checked(returned: Any, batch: Batch, kind: Kind) -> Emission:
    """What was returned as an Emission of int64 tensors of the right shapes."""
    n, depth = len(batch), batch.depth
    if isinstance(returned, Emission):
        given = returned
    elif isinstance(returned, tuple) and len(returned) == 2:
        given = Emission(tokens=returned[0], num_sampled=returned[1])
    elif isinstance(returned, (torch.Tensor, np.ndarray)):
        given = Emission(tokens=returned) if kind is not Kind.PROPOSAL else Emission(tokens=None, drafts=returned)
    else:
        raise BreachError(f"returned {type(returned).__name__}; want tokens, (tokens, num_sampled) or an Emission")
    ones = torch.ones(n, dtype=torch.int64, device=batch.device)
    if kind is Kind.PROPOSAL:
        drafts = _integers("drafts", given.drafts, (n, depth), batch)
        return Emission(
            tokens=torch.zeros(n, depth + 1, dtype=torch.int64, device=batch.device),
            num_sampled=ones,
            drafts=drafts,
            proposed=drafts,
            status=ones * 0,
        )
    tokens = given.tokens
    if kind is Kind.PLAIN and isinstance(tokens, (torch.Tensor, np.ndarray)) and tokens.ndim == 1:
        tokens = tokens[:, None]
    found = Emission(
        tokens=_integers("tokens", tokens, (n, depth + 1), batch),
        num_sampled=ones if kind is Kind.PLAIN else _integers("num_sampled", given.num_sampled, (n,), batch),
        drafts=batch.tensors.given.long(),
        status=ones * 0 if given.status is None else _integers("status", given.status, (n,), batch),
    )
    if kind is Kind.ENGINE:  # what it kept is what it emitted; what lies behind it is not read
        behind = torch.arange(1, depth + 1, device=batch.device) >= found.num_sampled[:, None]
        return replace(found, drafts=found.tokens[:, :depth].masked_fill(behind, 0))
    if kind is not Kind.PIPELINE:
        return found
    drafts = _integers("drafts", given.drafts, (n, depth), batch)
    proposed = drafts if given.proposed is None else _integers("proposed", given.proposed, (n, depth), batch)
    return replace(found, drafts=drafts, proposed=proposed)


def _integers(name: str, value: Any, shape: tuple[int, ...], batch: Batch) -> torch.Tensor:
    """NumPy arrays and tensors on the batch's device, of integers and of this shape, as int64 on the device."""
    if value is None:
        raise BreachError(f"returned no {name}; want {list(shape)} integers")
    if not isinstance(value, (torch.Tensor, np.ndarray)):
        raise BreachError(f"{name} is a {type(value).__name__}; want a tensor")
    dtype = str(value.dtype).removeprefix("torch.")
    if not dtype.removeprefix("u").startswith("int"):
        raise BreachError(f"{name} is {dtype}; want integers")
    if tuple(value.shape) != shape:
        raise BreachError(f"{name} is {list(value.shape)}; want {list(shape)}")
    if isinstance(value, np.ndarray):
        return torch.as_tensor(value.astype(np.int64), device=batch.device)
    if value.device.type != torch.device(batch.device).type:
        raise BreachError(f"{name} is on {value.device}; want {batch.device}")
    if value.layout is not torch.strided:
        raise BreachError(f"{name} is {value.layout}; want a dense tensor")
    return value.detach().long()
