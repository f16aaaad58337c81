"""The limits of canonical bytes, met exactly: depth, the largest integer alone, many keys, and what a refusal shows."""

from collections.abc import Callable
from typing import Any

import pytest

from pp3.harness import canonical
from pp3.harness.errors import ReceiptError

LARGEST = 2**53 - 1
Hold = Callable[[Any], Any]


def nested(depth: int, *holds: Hold) -> Any:
    """A null that lies this many containers deep, of these kinds in turn."""
    value: Any = None
    for level in range(depth):
        value = holds[level % len(holds)](value)
    return value


def in_list(value: Any) -> Any:
    return [value]


def in_object(value: Any) -> Any:
    return {"a": value}


HOLDS = [
    pytest.param((in_list,), id="lists"),
    pytest.param((in_object,), id="objects"),
    pytest.param((in_list, in_object), id="both"),
]


@pytest.mark.parametrize("holds", HOLDS)
def test_a_value_may_lie_100_deep(holds: tuple[Hold, ...]) -> None:
    value = nested(100, *holds)
    assert canonical.decode(canonical.encode(value)) == value


@pytest.mark.parametrize("deeper", [1, 2, 50])
@pytest.mark.parametrize("holds", HOLDS)
def test_a_value_may_not_lie_deeper(holds: tuple[Hold, ...], deeper: int) -> None:
    with pytest.raises(ReceiptError, match=r"^nested deeper than 100$"):
        canonical.encode(nested(100 + deeper, *holds))


@pytest.mark.parametrize("value", [LARGEST, -LARGEST])
def test_the_largest_integer_may_stand_alone(value: int) -> None:
    content = b'{"n":%d}' % value
    assert canonical.encode({"n": value}) == content
    assert canonical.decode(content) == {"n": value}


def test_an_object_may_have_hundreds_of_keys() -> None:
    """More of them than Python keeps integers of its own for."""
    content = b"{%s}" % b",".join(b'"k%03d":%d' % (key, key) for key in range(300))
    assert canonical.decode(content) == {f"k{key:03}": key for key in range(300)}


@pytest.mark.parametrize("code", [0xD800, 0xDBFF, 0xDC00, 0xDFFF])
def test_a_lone_surrogate_is_refused_beside_a_key(code: int) -> None:
    with pytest.raises(ReceiptError, match=r"^\$\.a\.b: a lone surrogate$"):
        canonical.encode({"a": {"b": f"text {chr(code)}"}})


def test_a_refusal_shows_twelve_bytes_of_each() -> None:
    """From the first that differs, byte 36, here a space that is not canonical."""
    content = b'{"key":"0123456789abcdefghijklmnop", "next":"qrstuvwxyz"}'
    with pytest.raises(ReceiptError) as refused:
        canonical.decode(content)
    said = """not canonical from byte 36: expected b'"next":"qrst', got b' "next":"qrs'"""
    assert str(refused.value) == said
