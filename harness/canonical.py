"""Canonical bytes: RFC 8785 for the subset a receipt uses, which has no floats and ASCII keys.

For that subset the canonical form is sorted keys, no spaces, UTF-8; tests/test_canonical.py holds it against rfc8785.
The reader refuses whatever it would not have written: duplicate keys, floats, NaN, integers beyond 2^53 - 1, a byte
order mark, other spacing.
"""

import hashlib
import json
from typing import Any

from pp3.harness.errors import ReceiptError

LARGEST = 2**53 - 1
DEEPEST = 100
DIGITS = 6  # of a double that was computed
Path = tuple[()] | tuple["Path", str | int]  # of a value: that of what holds it, and its key there


def number(value: float) -> str:
    """A double to six significant digits, as a receipt holds it."""
    return f"{value:.{DIGITS}g}"


def encode(value: Any) -> bytes:
    """Canonical bytes. ReceiptError for anything a receipt may not hold."""
    _check(value, (), 0)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(content: bytes) -> Any:
    """The value whose canonical bytes these are. ReceiptError with the reason otherwise."""
    try:
        value = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_float=lambda text: _refuse(f"a float {text}; numbers are integers or strings"),
            parse_constant=lambda text: _refuse(f"{text} is no number"),
        )
    except UnicodeDecodeError as error:
        raise ReceiptError(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"character {error.pos}"
        raise ReceiptError(f"not JSON at {where}: {error.msg}; the file is truncated or no receipt") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ReceiptError(f"a number beyond any receipt: {error}") from None
    except RecursionError:
        raise ReceiptError(f"nested deeper than {DEEPEST}") from None
    again = encode(value)
    if again != content:
        at = next(
            (i for i, (a, b) in enumerate(zip(again, content, strict=False)) if a != b), min(len(again), len(content))
        )
        raise ReceiptError(
            f"not canonical from byte {at}: expected {again[at : at + 12]!r}, got {content[at : at + 12]!r}"
        )
    return value


def sha256(value: Any) -> str:
    """SHA-256 of a value's canonical bytes, in hexadecimal."""
    return hashlib.sha256(encode(value)).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        _refuse(f"key {next(key for number, key in enumerate(keys) if key in keys[:number])!r} twice")
    return found


def _refuse(reason: str) -> Any:
    raise ReceiptError(reason)


def _check(value: Any, path: Path, depth: int) -> None:
    if depth > DEEPEST:
        raise ReceiptError(f"nested deeper than {DEEPEST}")
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise ReceiptError(f"{_shown(path)}: a lone surrogate")
        return
    if isinstance(value, int):
        if abs(value) > LARGEST:
            raise ReceiptError(f"{_shown(path)}: {value} is beyond 2^53 - 1; write it as a string")
        return
    if isinstance(value, list):
        if set(map(type, value)) == {int} and min(value) >= -LARGEST and max(value) <= LARGEST:
            return  # most of a receipt is lists of counts
        for number, item in enumerate(value):
            _check(item, (path, number), depth + 1)
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not key.isascii():
                raise ReceiptError(f"{_shown(path)}: key {key!r} is not an ASCII string")
            if type(item) is not str or not item.isascii():  # what most of the rest is
                _check(item, (path, key), depth + 1)
        return
    raise ReceiptError(
        f"{_shown(path)}: {value!r} is a {type(value).__name__}; a receipt holds integers, strings, lists, objects"
    )


def _shown(path: Path) -> str:
    """A place as `$.cells[3].id`."""
    if not path:
        return "$"
    before, key = path
    return f"{_shown(before)}[{key}]" if isinstance(key, int) else f"{_shown(before)}.{key}"
