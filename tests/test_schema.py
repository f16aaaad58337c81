"""The schema and the classes of leaves are generated, cover every receipt, and the strict reader comes before both."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from pp3.harness import canonical
from pp3.harness.errors import ReceiptError
from pp3.harness.evidence import leaves, receipt, schema, shapes

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "receipts" / "receipt.schema.json"
COMMITTED = sorted((ROOT / "receipts" / "evidence").glob("*/*.json"))
SMALL = min((path for path in COMMITTED if path.parent.name == "survey"), key=lambda path: path.stat().st_size)


@pytest.fixture(scope="module")
def validator() -> Any:
    """Of the committed file, by an implementation that is not ours."""
    committed = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(committed)
    return jsonschema.Draft202012Validator(committed)


def test_the_committed_schema_is_the_generated_one() -> None:
    """The same bytes: python3 -m pp3.harness.evidence.schema > receipts/receipt.schema.json."""
    assert SCHEMA.read_text("utf-8") == schema.render()


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name[:32])
def test_every_committed_receipt_is_of_it(path: Path, validator: Any) -> None:
    """By the schema, and by the reader."""
    _, statement = receipt.read(path)
    assert [error.message for error in validator.iter_errors(statement)] == []


def test_a_fresh_receipt_is_of_it(real_receipt: Path, validator: Any) -> None:
    """What the code writes today."""
    assert [error.message for error in validator.iter_errors(receipt.read(real_receipt)[1])] == []


def statement() -> dict[str, Any]:
    """That of a small committed trial."""
    return dict(canonical.decode(SMALL.read_bytes()))


WRONG: dict[str, Any] = {
    "no verdict": lambda s: s["predicate"].pop("verdict"),
    "an unknown field": lambda s: s["predicate"].update(approved="yes"),
    "an unknown field of a cell": lambda s: s["predicate"]["cells"][0].update(weight=1),
    "an unknown field of the statement": lambda s: s.update(signed="yes"),
    "a count below 0": lambda s: s["predicate"]["cells"][0]["counts"].__setitem__(0, -1),
    "a count as text": lambda s: s["predicate"]["cells"][0]["counts"].__setitem__(0, "1"),
    "no subject": lambda s: s.update(subject=[]),
    "a digest of 63 digits": lambda s: s["subject"][0]["digest"].update(sha256="0" * 63),
    "a digest with a newline": lambda s: s["subject"][0]["digest"].update(sha256="0" * 64 + "\n"),
    "another kind": lambda s: s["predicate"].update(kind="hope"),
    "another assurance": lambda s: s["predicate"].update(assurance="proved"),
    "another statement": lambda s: s.update(_type="https://in-toto.io/Statement/v2"),
    "a newer major": lambda s: s.update(predicateType="urn:pp3:receipt:v2"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_schema_and_reader_refuse_the_same(change: Any, validator: Any) -> None:
    """What one refuses, the other does."""
    changed = statement()
    change(changed)
    assert not validator.is_valid(changed)
    with pytest.raises(ReceiptError):
        shapes.check_shape(changed)


def test_a_newer_major_is_named_before_anything_else() -> None:
    """Even where nothing else of it is known here."""
    for other in ({}, {"predicate": 3, "more": [1]}):
        with pytest.raises(ReceiptError, match="of major 2: use the pp3 that wrote it"):
            shapes.check_shape({"_type": shapes.STATEMENT, "predicateType": "urn:pp3:receipt:v2"} | other)


NOT_CANONICAL = {
    "a key twice": (b'{"_type":', b'{"_type":"","_type":', "key '_type' twice"),
    "a float": (b'"count":1', b'"count":1.0', "float 1.0"),
    "NaN": (b'"count":1', b'"count":NaN', "NaN is no number"),
    "a byte order mark": (b'{"_type":', b'\xef\xbb\xbf{"_type":', "BOM"),
    "a space": (b'{"_type":', b'{"_type": ', "not canonical"),
    "a newer major that is not canonical": (b"receipt:v1", b"receipt:v2\\u0041", "not canonical"),
}


@pytest.mark.parametrize(("old", "new", "reason"), NOT_CANONICAL.values(), ids=NOT_CANONICAL)
def test_what_is_not_canonical_is_refused_before_the_shape(old: bytes, new: bytes, reason: str) -> None:
    """A schema alone would let most of these through."""
    content = SMALL.read_bytes()
    content = content if old in content else content.replace(b'"counter":', b'"count":1,"counter":')
    assert old in content
    with pytest.raises(ReceiptError, match=reason):
        canonical.decode(content.replace(old, new, 1))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name[:32])
def test_every_leaf_of_every_receipt_is_classified(path: Path) -> None:
    """A leaf without a rule is a KeyError."""
    _, read = receipt.read(path)
    for leaf, _ in leaves.leaves(read):
        assert leaves.rule_of(read["predicate"]["kind"], leaf).by


def fields(kind: type[msgspec.Struct]) -> list[str]:
    """Every path that a shape can have, maps and lists of any depth as one."""
    found = []
    components = msgspec.json.schema_components([kind], ref_template="{name}")
    parts, root = components[1], components[0][0]["$ref"]

    def visit(part: dict[str, Any], path: str) -> None:
        options = part.get("anyOf", [part])
        for option in options:
            if "$ref" in option:
                visit(parts[option["$ref"]], path)
            elif option.get("type") == "object" and option.get("properties"):
                for name, inner in option["properties"].items():
                    visit(inner, f"{path}.{name}" if path else name)
            elif option.get("type") == "array" and isinstance(option.get("items"), dict):
                visit(option["items"], f"{path}[]")
            else:
                found.append(path)

    visit(parts[root], "")
    return found


@pytest.mark.parametrize("kind", leaves.RULES)
def test_every_field_of_every_shape_has_a_rule_and_every_rule_a_field(kind: str) -> None:
    """Also of fields that no committed receipt has, such as an image; no rule is left over from a field that went."""
    paths = [path for path in fields(shapes.EnvelopeShape) if path != "predicate"]
    paths += [f"predicate.{path}" for path in fields(shapes.SHAPES[kind])]
    for path in paths:
        assert leaves.rule_of(kind, path).by
    free = ("predicate.plan.", "predicate.policies[].survey.", "predicate.run.", "predicate.tool.")  # maps, not shaped
    for rule in leaves.RULES[kind]:
        assert any(leaves.covers(rule.path, path) for path in paths) or rule.path.startswith(free), rule.path


def test_the_longest_rule_decides() -> None:
    """A law's digest lies in the plan and is not held by its digest alone."""
    assert leaves.rule_of("trial", "predicate.plan.alpha").held is leaves.Held.BOUND
    assert leaves.rule_of("trial", "predicate.plan.targets[].lawSha256").held is leaves.Held.DERIVED
    with pytest.raises(KeyError):
        leaves.rule_of("trial", "predicate.planet")
