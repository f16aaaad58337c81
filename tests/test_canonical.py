"""Canonical bytes: equal to rfc8785's, and whatever the writer would not have written is refused with its reason."""

import hashlib
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from pp3.harness import canonical
from pp3.harness.errors import Exit, ReceiptError

LARGEST = 2**53 - 1
LEAVES = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text()
KEYS = st.text(st.characters(max_codepoint=127), max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=40
)
ASTRAL = "\U0001f3b2"

KNOWN = {
    "keys are sorted": ({"b": 1, "a": 2, "B": 3}, b'{"B":3,"a":2,"b":1}'),
    "no spaces": ([1, {"a": [True, None]}], b'[1,{"a":[true,null]}]'),
    "strings are UTF-8": (["\u00e9\u2028" + ASTRAL], f'["\u00e9\u2028{ASTRAL}"]'.encode()),
    "controls are escaped": (["\x00\x1f\n\x7f"], b'["\\u0000\\u001f\\n\x7f"]'),
    "quotes and backslashes are escaped, slashes are not": (['"\\/'], b'["\\"\\\\/"]'),
    "the largest integers": ([LARGEST, -LARGEST], b"[9007199254740991,-9007199254740991]"),
    "empty containers": ([{}, [], ""], b'[{},[],""]'),
}

UNREADABLE = {
    "a float": (b'{"a":1.5}', "float 1.5"),
    "a whole float": (b"[100.0]", "float 100.0"),
    "an exponent": (b"[1e2]", "float 1e2"),
    "minus zero": (b"[-0]", "not canonical from byte 1"),
    "NaN": (b"[NaN]", "NaN is no number"),
    "infinity": (b"[Infinity]", "Infinity is no number"),
    "minus infinity": (b"[-Infinity]", "-Infinity is no number"),
    "a key twice": (b'{"verdict":"FAIL","verdict":"PASS"}', "key 'verdict' twice"),
    "a key twice, deep inside": (b'[{"a":[{"b":1,"b":1}]}]', "key 'b' twice"),
    "a byte order mark": (b'\xef\xbb\xbf{"a":1}', "BOM"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "not UTF-8 at byte 0"),
    "a broken UTF-8 sequence": (b'["ab\xff"]', "not UTF-8 at byte 4"),
    "a trailing newline": (b'{"a":1}\n', "not canonical from byte 7"),
    "a leading space": (b' {"a":1}', "not canonical from byte 0"),
    "a space after the colon": (b'{"a": 1}', "not canonical from byte 5"),
    "a space after the comma": (b"[1, 2]", "not canonical from byte 3"),
    "keys out of order": (b'{"b":1,"a":2}', "not canonical from byte 2"),
    "a needless escape": (b'["\\u0041"]', "not canonical from byte 2"),
    "an escaped slash": (b'["\\/"]', "not canonical from byte 2"),
    "beyond 2^53 - 1": (b"[9007199254740992]", "9007199254740992 is beyond 2^53 - 1"),
    "below -(2^53 - 1)": (b"[-9007199254740992]", "-9007199254740992 is beyond 2^53 - 1"),
    "an integer of 5,000 digits": (b"[" + b"9" * 5000 + b"]", ""),
    "a lone surrogate": (b'["\\ud800"]', "lone surrogate"),
    "a lone low surrogate": (b'{"a":["\\udfff"]}', "$.a[0]: a lone surrogate"),
    "a key that is not ASCII": ('{"\u00e9":1}'.encode(), "is not an ASCII string"),
    "nested 100,000 deep": (b"[" * 100_000 + b"]" * 100_000, "nested deeper than 100"),
    "truncated in an object": (b'{"a":[1,', "truncated"),
    "truncated in a string": (b'{"a":"b', "truncated"),
    "empty": (b"", "truncated"),
    "two values": (b"[1][2]", "not JSON at character 3"),
    "a leading zero": (b"[01]", "not JSON at character 2"),
    "a comment": (b"[1]//", "not JSON at character 3"),
}

UNWRITABLE: dict[str, tuple[Any, str]] = {
    "a float": ({"a": [0, 1.0]}, "$.a[1]: 1.0 is a float"),
    "NaN": ([float("nan")], "$[0]: nan is a float"),
    "beyond 2^53 - 1": ({"n": 2**53}, "$.n: 9007199254740992 is beyond 2^53 - 1; write it as a string"),
    "below -(2^53 - 1)": ([-(2**53)], "is beyond 2^53 - 1"),
    "a tuple": ((1, 2), "$: (1, 2) is a tuple"),
    "bytes": ([b"x"], "is a bytes"),
    "a lone surrogate": (["\ud800"], "$[0]: a lone surrogate"),
    "a key that is not ASCII": ({"\u00e9": 1}, "is not an ASCII string"),
    "a key that is no string": ({1: 1}, "key 1 is not an ASCII string"),
}


@pytest.mark.parametrize(("value", "content"), KNOWN.values(), ids=KNOWN)
def test_known_bytes(value: Any, content: bytes) -> None:
    """Known answers, both ways."""
    assert canonical.encode(value) == content
    assert canonical.decode(content) == value


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(VALUES)
def test_bytes_are_those_of_rfc8785_and_read_back(value: Any) -> None:
    """The subset has one canonical form, ours and the library's."""
    content = canonical.encode(value)
    assert content == rfc8785.dumps(value)
    again = canonical.decode(content)
    assert again == value
    assert canonical.encode(again) == content
    assert canonical.sha256(value) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(("content", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_reader_refuses(content: bytes, reason: str) -> None:
    """One line that names the reason; a malformed receipt is exit code 1."""
    with pytest.raises(ReceiptError) as refused:
        canonical.decode(content)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == Exit.NEGATIVE


@pytest.mark.parametrize(("value", "reason"), UNWRITABLE.values(), ids=UNWRITABLE)
def test_a_writer_refuses(value: Any, reason: str) -> None:
    """What a receipt may not hold is named with its place."""
    with pytest.raises(ReceiptError) as refused:
        canonical.encode(value)
    assert reason in str(refused.value)


def test_no_depth_of_nesting_ends_in_anything_but_a_value_or_a_refusal() -> None:
    """The parser, the check and the encoder each have a limit of their own; no depth falls between them."""
    refused = 0
    for depth in range(700, 1100):
        content = b"[" * depth + b"]" * depth
        try:
            assert canonical.encode(canonical.decode(content)) == content
        except ReceiptError:
            refused += 1
    assert refused


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_no_prefix_of_a_document_is_a_document(cut: int) -> None:
    """A truncated file is never read as a shorter one."""
    content = canonical.encode({"a": [1, {"b": "c"}], "d": "e" * 20, "f": [True, None]})
    with pytest.raises(ReceiptError):
        canonical.decode(content[:-cut])
