"""HELLO byte by byte, as semantics section 4 lays it out, of a peer that samples and of one that does not."""

import struct

import pytest

from pp3.harness.transport import hello
from pp3.harness.transport.frame import Mode

SESSION = bytes(range(16))
NAME = b"dyadic24-floor-first-v1" + bytes(9)
TAU = 0x3F333333  # 0.7 in FP32


@pytest.mark.parametrize(("mode", "said", "capability"), [(Mode.SAMPLED, 2, 8), (Mode.UNSAMPLED, 0, 0)])
def test_every_byte_of_a_hello(mode: Mode, said: int, capability: int) -> None:
    """A peer whose switch is off says mode 0 and no capability; all else is the same."""
    mine = hello.Hello(mode=mode, target=b"t" * 32, draft=b"d" * 32, markov=b"m" * 32)
    head = b"PP3F" + struct.pack("<HHI", 1, 1, 0) + SESSION + struct.pack("<QI", 0, 156)
    body = struct.pack("<III", said, capability, 1) + NAME + b"t" * 32 + b"d" * 32 + b"m" * 32
    assert hello.encode(mine, SESSION) == head + body + struct.pack("<IIII", 32, TAU, 4, 5)
