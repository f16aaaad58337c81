"""Which row a refusal names, where another row is at its very limit."""

import numpy as np
import pytest

from pp3.harness.transport import wire
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.refusal import FrameError, Refusal

SESSION = bytes(range(16))
VOCAB, DEPTH, ONE = 40, 4, 1 << 24
ASKED = wire.Asked(
    mode=Mode.SAMPLED,
    session=SESSION,
    sequence=3,
    round=2,
    depth=DEPTH,
    generations=(5, 6),
    sampled=(True, True),
    vocab=VOCAB,
)


def two_rows(tickets: int, last: int) -> bytes:
    """Two rows that draw token 1, of so many tickets in the first of them; the second one's last token is `last`."""
    q = np.zeros((2, DEPTH, 32), np.float32)
    q[0, :, 1], q[0, :, 2] = tickets / ONE, (ONE - tickets) / ONE
    q[1, :, 1] = 1
    tokens = np.ones((2, DEPTH), np.int32)
    tokens[1, -1] = last
    reply = wire.Reply(
        status=np.zeros(2, np.int32),
        generation=np.array(ASKED.generations, np.uint32),
        tokens=tokens,
        confidence=np.zeros((2, DEPTH), np.float32),
        mask=np.ones(2, np.int32),
        ids=np.broadcast_to(np.arange(32, dtype=np.int32), q.shape),
        q=q,
    )
    return wire.encode(reply, ASKED.round, SESSION, ASKED.sequence)


def test_one_ticket_is_enough_to_draw_a_token() -> None:
    """And none is not."""
    assert wire.decode(two_rows(1, 1), ASKED).tokens.tolist() == [[1] * DEPTH] * 2
    with pytest.raises(FrameError, match=r"^row-undrawable: row 0 breaks this rule$"):
        wire.decode(two_rows(0, 1), ASKED)


@pytest.mark.parametrize("last", [VOCAB, -1])
def test_a_row_that_is_sound_by_one_ticket_is_not_the_one_named(last: int) -> None:
    """The row behind it breaks a rule: the one of tokens."""
    with pytest.raises(FrameError, match=r"row 1 breaks this rule$") as found:
        wire.decode(two_rows(1, last), ASKED)
    assert found.value.code is Refusal.ROW_TOKEN
