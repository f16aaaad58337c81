"""From the engine's state slots on a GPU to the proxy's ring, in stream order and without a host synchronisation.

State is [slots, 4] int64 on the GPU: seed, T > 0, generation, position; the GPU itself may change it between rounds.
The rows of a batch are gathered there and copied into the ring's entry, and after them, in the same stream, the stamp
for which the proxy waits. The ring's page is host memory that CUDA was told of, so that the copies are asynchronous.
"""

from typing import Any

import torch

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.transport.ring import ROW_WORDS, Ring

FIELDS = ("seed", "sampled", "generation", "position")


def new_state(slots: int, device: torch.device | str) -> torch.Tensor:
    """State of so many slots, all zero: [slots, 4] int64."""
    return torch.zeros(slots, ROW_WORDS, dtype=torch.int64, device=device)


class Gather:
    """Writes rounds into a ring, all in one stream: channel.Writer.

    A channel makes one for each of its rings (`attach=lambda ring: Gather(state, ring)`), and closes it before it gives
    the ring's memory back.
    """

    def __init__(self, state: torch.Tensor, ring: Ring) -> None:
        if state.ndim != 2 or state.shape[1] != ROW_WORDS or state.dtype != torch.int64:
            raise ValueError(f"state is {tuple(state.shape)} {state.dtype}; it must be [slots, {ROW_WORDS}] int64")
        self._state, self._ring = state, ring
        self._address = ring.stamp(0).ctypes.data
        _checked(_runtime().cudaHostRegister(self._address, ring.size, 0))

    def issue(self, entry: int, ticket: int, slots: torch.Tensor) -> None:
        """Copy the rows of slots [n] int64, on the GPU, into an entry, then its stamp; returns at once."""
        rows = self._state.index_select(0, slots)
        torch.from_numpy(self._ring.rows(entry, len(slots))).copy_(rows, non_blocking=True)
        stamp = torch.full((1,), ticket, dtype=torch.int64, device=self._state.device)
        torch.from_numpy(self._ring.stamp(entry)).copy_(stamp, non_blocking=True)

    def close(self) -> None:
        """Let CUDA forget the page; waits for the copies that are under way."""
        torch.cuda.synchronize()
        _checked(_runtime().cudaHostUnregister(self._address))


def _runtime() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch leaves it untyped


def _checked(code: Any) -> None:
    if int(code) != 0:
        raise PP3Error(f"CUDA refuses to take the ring's page as its own (error {int(code)})", Exit.UNAVAILABLE)
