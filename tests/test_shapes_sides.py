"""Shapes from the other side: what sorts before the right word, and starts of an engine below 1."""

from pathlib import Path
from typing import Any

import pytest

from pp3.harness import canonical
from pp3.harness.errors import ReceiptError
from pp3.harness.evidence import shapes

ROOT = Path(__file__).resolve().parents[1]


def smallest(kind: str) -> dict[str, Any]:
    """The smallest committed statement of a kind."""
    paths = (ROOT / "receipts" / "evidence" / kind).glob("*.json")
    return dict(canonical.decode(min(paths, key=lambda path: path.stat().st_size).read_bytes()))


@pytest.mark.parametrize("other", ["", "https://in-toto.io/Statement/v0.1", "https://in-toto.io/Statement/v1 "])
def test_another_statement_is_refused(other: str) -> None:
    """Whether it sorts before ours or behind."""
    statement = smallest("survey")
    shapes.check_shape(statement)
    with pytest.raises(ReceiptError, match=r"^not an in-toto statement \(https://in-toto\.io/Statement/v1\)$"):
        shapes.check_shape(statement | {"_type": other})


@pytest.mark.parametrize("other", ["", "urn:pp3:receipt:v0", "urn:pp3:receipt:v1 ", "urn:pp3:receipt:v2"])
def test_another_predicate_is_refused(other: str) -> None:
    """Likewise; that of a major version says whose it is."""
    major = other[-1:] if other.endswith(("0", "2")) else ""
    way = f"; it is of major {major}: use the pp3 that wrote it" if major else ""
    with pytest.raises(ReceiptError) as found:
        shapes.check_shape(smallest("survey") | {"predicateType": other})
    assert str(found.value) == f"predicate {other!r}; this version reads 'urn:pp3:receipt:v1'{way}"


def test_an_engine_was_started_once_or_more() -> None:
    """Never less."""
    statement = smallest("engine")
    statement["predicate"]["attempts"] = 1
    shapes.check_shape(statement)
    statement["predicate"]["attempts"] = 0
    with pytest.raises(ReceiptError, match=r"^Expected `int` >= 1 - at `\$\.attempts`$"):
        shapes.check_shape(statement)
