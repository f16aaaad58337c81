"""Which random words a request consumes: its keys, its counters and Philox4x32-10 over them.

Contract (semantics section 1): one key per request and purpose; counter (round lo, round hi, position lo, position
hi); one block of four 32-bit words per counter, each word used once. Every draw is a function of (key, counter).
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

import hashlib
from enum import Enum

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


class Purpose(Enum):
    """What a key's words are spent on; the two never share a word."""

    PROPOSAL = b"pp3/proposal"
    VERIFY = b"pp3/verify"


def request_key(session: bytes, slot: int, generation: int, seed: int, purpose: Purpose) -> int:
    """The 64-bit Philox key of one request; word 0 is the low half.

    Raises ValueError if the session is not 16 bytes; OverflowError if a field does not fit (u32, u32, i64).
    """
    if len(session) != 16:
        raise ValueError(f"session has {len(session)} bytes; a session is 16 bytes")
    message = (
        session
        + slot.to_bytes(4, "little")
        + generation.to_bytes(4, "little")
        + seed.to_bytes(8, "little", signed=True)
    )
    digest = hashlib.blake2b(message, digest_size=8, person=purpose.value.ljust(16, b"\0")).digest()
    return int.from_bytes(digest, "little")


def philox4x32(counter: U32, key: U32) -> U32:
    """Ten rounds of Philox: counter [..., 4] and key [..., 2] to words [..., 4]."""
    c0, c1, c2, c3 = (counter[..., i].astype(np.uint64) for i in range(4))
    k0, k1 = (key[..., i].astype(np.uint64) for i in range(2))
    m0, m1 = (np.uint64(m) for m in MULTIPLIERS)
    w0, w1 = (np.uint64(w) for w in WEYL)
    for _ in range(ROUNDS):
        product0, product1 = m0 * c0, m1 * c2
        c0, c1, c2, c3 = (product1 >> SHIFT) ^ c1 ^ k0, product1 & LOW, (product0 >> SHIFT) ^ c3 ^ k1, product0 & LOW
        k0, k1 = (k0 + w0) & LOW, (k1 + w1) & LOW
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def words(keys: U64, rounds: U64, positions: U64) -> U32:
    """The block of each (key, round, position): three arrays [n] to words [n, 4]. Positions wrap modulo 2^64."""
    counter = np.stack([rounds & LOW, rounds >> SHIFT, positions & LOW, positions >> SHIFT], axis=-1)
    key = np.stack([keys & LOW, keys >> SHIFT], axis=-1)
    return philox4x32(counter.astype(np.uint32), key.astype(np.uint32))
