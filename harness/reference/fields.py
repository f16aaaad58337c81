"""docs/reference/receipt.md: every field of every kind of receipt, from the shapes, and what stands behind it."""

from collections.abc import Iterator, Mapping
from typing import Any

from pp3.harness import battery
from pp3.harness.cells import Event
from pp3.harness.design import Method
from pp3.harness.engine import judge
from pp3.harness.engine.cells import Look
from pp3.harness.evidence import leaves, schema, shapes
from pp3.harness.power import Effect, Unit
from pp3.harness.reference.tables import code, table

HEAD = """\
# Fields of a receipt

Every field of every kind of receipt, from the shapes that the reader checks
([receipt.schema.json](../../receipts/receipt.schema.json) is the same as a JSON Schema), and what stands behind it.
[receipts.md](../receipts.md) says how a receipt is verified and what that shows.

An unknown field is refused, and so is a missing one that is required. An integer lies within 2^53. What is measured
and is no integer is text: a double to six significant digits, a rational as `num/den`.

## The statement

"""
BEHIND = """\

## What stands behind each leaf

derived: `pp3 verify` works it out from other leaves, or it is fixed, and any other value is refused. bound: a digest
holds it, in the receipt or of a file; who changes it must change the digest, or the file. attested: whoever wrote the
receipt says so, and nobody can check it offline; verify holds it to its range and its sums, and judges what follows.
A path covers what lies below it, but for longer paths.

"""
JUDGED = """
## Tests

What each of `tests` holds; all of it is worked out from plan and counts again. A size is in the `unit` of the test.

"""
OF_A_TEST = {
    "alpha": "its level, fixed before the run; 0 if it can decide nothing",
    "detectable": "the smallest effect that it sees with the campaign's power, at the planned size",
    "df": "degrees of freedom of `g`",
    "event": "its kind: see [checks](checks.md)",
    "events": "how many were counted",
    "excluded": "the largest effect that the counts leave possible, at a confidence of 99.9 %",
    "forbidden": "events that the law gives probability 0; one fails the test",
    "g": "the statistic",
    "id": "target, depth, kind, place; of an engine condition and kind",
    "method": "how it is decided: see [checks](checks.md#the-error-budget)",
    "off": "total variation between counts and law, as counted: chance has a share in it",
    "outcome": "`pass`, `fail`, `certain` (only a forbidden outcome could fail it), `unresolved` (too few events)",
    "p": "of the statistic; at or below `alpha` it fails",
    "pearson": "Pearson's statistic of the same groups; it decides nothing",
    "pearsonP": "its p-value",
    "reason": "why it can decide nothing",
    "required": "whether a PASS needs it",
    "unit": "of `detectable` and `excluded`",
    "worst": "of outcomes one by one: the cell and the outcome of the smallest tail",
}


def page() -> str:
    """The page."""
    whole = schema.schema()
    parts: dict[str, Any] = whole["$defs"]
    kinds = [_name(root["$ref"]) for root in whole["properties"]["predicate"]["oneOf"]]
    said = HEAD + _fields(whole)
    for kind, shape in shapes.SHAPES.items():
        said += f"\n## {kind}\n\n{parts[shape.__name__].get('description', '')}\n\n{_fields(parts[shape.__name__])}"
    said += "\n## Parts\n"
    for name, part in sorted(parts.items()):
        if name not in kinds:
            said += f"\n### {_title(name)}\n\n{part.get('description', '')}\n\n{_fields(part)}"
    return said + JUDGED + _tests() + BEHIND + leaves.render()


def _tests() -> str:
    """Fields of a test, by those that write one. KeyError for one whose meaning is not said."""
    nothing = Effect(size=0.0, unit=Unit.TV)
    same: dict[str, Any] = dict.fromkeys(("df", "events", "g", "p", "alpha", "forbidden"), 0)
    same |= {"id": "", "reason": "", "required": False}
    of_samplers = battery.TestResult(
        **same,
        event=Event.TOKEN,
        method=Method.G,
        pearson=0.0,
        pearson_p=0.0,
        worst="",
        detectable=nothing,
        excluded=nothing,
    ).plain()
    of_engines = judge.Result(**same, look=Look.TOKEN, detectable=0.0, excluded=0.0, off=0.0, counted=0).plain()
    rows = [
        (code(name), OF_A_TEST[name], "all" if name in of_samplers and name in of_engines else _only(name, of_engines))
        for name in sorted(of_samplers | of_engines)
    ]
    return table(("field", "what it is", "of"), rows)


def _only(name: str, of_engines: Mapping[str, Any]) -> str:
    return "engine" if name in of_engines else "qualify, wire, trial"


def _fields(shape: Mapping[str, Any]) -> str:
    required = shape.get("required", [])
    rows = [
        (code(name), _type(of), "yes" if name in required else "no", ", ".join(_limits(of)))
        for name, of in sorted(shape["properties"].items())
    ]
    return table(("field", "type", "required", "limits"), rows)


def _type(of: Mapping[str, Any]) -> str:
    """A type in words; a part is a link."""
    if "$ref" in of:
        name = _title(_name(of["$ref"]))
        return f"[{name}](#{name})"
    if "anyOf" in of:
        return " or ".join(_type(one) for one in of["anyOf"])
    if "oneOf" in of:
        return "one of the kinds below"
    if "const" in of or "enum" in of:
        return "fixed"
    if of.get("type") == "array":
        return f"list of {_type(of['items'])}" if isinstance(of.get("items"), Mapping) else "list"
    if of.get("type") == "object":
        inner = of.get("additionalProperties")
        return f"map to {_type(inner)}" if isinstance(inner, Mapping) and inner else "map"
    return str(of.get("type", "any"))


def _limits(of: Mapping[str, Any]) -> Iterator[str]:
    if "const" in of:
        yield code(str(of["const"]))
    if "enum" in of:
        yield " or ".join(code(str(value)) for value in of["enum"])
    for key, said in (
        ("minimum", "at least {}"),
        ("maximum", "at most {}"),
        ("minItems", "{} or more"),
        ("maxItems", "at most {} of them"),
        ("minLength", "{} characters or more"),
        ("maxLength", "at most {} characters"),
    ):
        if key in of:
            yield said.format(of[key])
    if "pattern" in of:
        yield f"matches {code(of['pattern'])}"
    if isinstance(of.get("items"), Mapping):
        yield from (f"each {limit}" for limit in _limits(of["items"]))


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _title(name: str) -> str:
    """A heading whose anchor is itself."""
    return name.removesuffix("Shape").lower()
