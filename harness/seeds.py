"""Which random numbers a campaign uses: seed = SHA-256(plan digest || counter), then one address per request.

Request r has key index r >> 20, which selects slot, generation and seed, and round r mod 2^20 (semantics section 1),
so any sharding of a campaign draws the same numbers. Every round starts at position 2^32 - 3: its positions carry into
the high word of the counter.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from pp3.kernels.addressing import Purpose, request_key

RULE = "sha256(planSha256 bytes || counter u64 little-endian); session = first 16 bytes; request r: key index r >> 20"
ROUND_BITS = 20
SLOTS = 4
NEAR = 64  # keys of neighbours, which are looked up without sorting
BASE_POSITION = 2**32 - 3


@dataclass(frozen=True)
class Seed:
    """The 32 bytes every draw of one run follows from."""

    value: bytes

    @classmethod
    def of(cls, plan_sha256: str, counter: int) -> "Seed":
        """The seed of run number `counter` of a plan."""
        return cls(hashlib.sha256(bytes.fromhex(plan_sha256) + counter.to_bytes(8, "little")).digest())

    @cached_property
    def session(self) -> bytes:
        """Session identity, 16 bytes."""
        return self.value[:16]

    def request(self, key_index: int) -> tuple[int, int, int]:
        """Slot, generation and seed of the requests that share a key."""
        digest = hashlib.sha256(self.value + key_index.to_bytes(8, "little")).digest()
        return key_index % SLOTS, key_index, int.from_bytes(digest[:8], "little", signed=True)

    def keys(self, requests: npt.NDArray[np.int64], purpose: Purpose) -> npt.NDArray[np.uint64]:
        """Philox key of each request number [n]."""
        index = requests >> ROUND_BITS
        if len(index) and int(index.max()) - int(index.min()) < NEAR:
            first = int(index.min())
            keys = [_key(self, key_index, purpose) for key_index in range(first, int(index.max()) + 1)]
            found: npt.NDArray[np.uint64] = np.array(keys, np.uint64)[index - first]
            return found
        distinct, which = np.unique(index, return_inverse=True)
        return np.array([_key(self, int(key_index), purpose) for key_index in distinct], np.uint64)[which]

    def rounds(self, requests: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Round of each request number [n]."""
        return (requests & ((1 << ROUND_BITS) - 1)).astype(np.uint64)


@lru_cache(maxsize=1 << 12)
def _key(seed: Seed, key_index: int, purpose: Purpose) -> int:
    return request_key(seed.session, *seed.request(key_index), purpose)


def integers(seed: Seed, label: str, count: int) -> npt.NDArray[np.uint64]:
    """`count` 64-bit integers from SHAKE-128 of seed and label, for choices that are no draws of the sampler."""
    stream = hashlib.shake_128(seed.value + label.encode()).digest(8 * count)
    return np.frombuffer(stream, "<u8").astype(np.uint64)
