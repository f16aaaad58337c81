"""Near keys: a million neighbours, and a key that is blind to something collides."""

from collections.abc import Iterator
from typing import Any

import pytest

from pp3.harness.exact import counters
from pp3.kernels.addressing import Purpose, request_key


def fields() -> Iterator[tuple[Any, ...]]:
    """What the million keys are made of."""
    made: list[tuple[Any, ...]] = []

    def note(*identity: Any) -> int:
        made.append(identity)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "request_key", note)
        for _ in counters.near_keys():
            yield made.pop()


@pytest.fixture(scope="module")
def million() -> list[tuple[Any, ...]]:
    """The fields of the million keys."""
    return list(fields())


def test_the_near_keys_are_a_million_neighbours(million: list[tuple[Any, ...]]) -> None:
    """With the extremes of a seed, and generations on both sides of 0."""
    assert len(million) == len(set(million)) == counters.NEAR
    sessions, slots, generations, seeds, purposes = (set(column) for column in zip(*million, strict=True))
    assert {0, -1, (1 << 63) - 1, -(1 << 63)} < seeds
    assert {0, 1, (1 << 32) - 1} < generations
    assert (len(sessions), slots, purposes) == (10, {0, 1, 2, 3}, set(Purpose))
    assert len(request_key(*million[0]).to_bytes(8, "little")) == 8


@pytest.mark.parametrize(
    "blind",
    [
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g, seed), id="the-purpose"),
        pytest.param(lambda s, slot, g, seed, p: (s, g, seed, p), id="the-slot"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, seed, p), id="the-generation"),
        pytest.param(lambda s, slot, g, seed, p: (slot, g, seed, p), id="the-session"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g, abs(seed), p), id="the-sign-of-the-seed"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g, seed % (1 << 32), p), id="half-of-the-seed"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g, float(seed), p), id="a-seed-as-a-double"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot + g, seed, p), id="which-of-two-fields"),
        pytest.param(lambda s, slot, g, seed, p: (s, slot, g % 32, seed, p), id="high-bits-of-the-generation"),
    ],
)
def test_a_key_that_is_blind_to_something_collides(blind: Any, million: list[tuple[Any, ...]]) -> None:
    """Among the keys of the first two sessions."""
    some = million[: counters.NEAR // 5]
    assert len({blind(*identity) for identity in some}) < len(some)
