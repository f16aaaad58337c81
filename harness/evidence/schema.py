"""The JSON Schema (draft 2020-12) of a receipt, generated from the shapes, printed to receipts/receipt.schema.json.

A receipt is canonical bytes first and of this shape second: a schema knows nothing of duplicate keys or of spacing, so
the strict reader (`canonical.decode`) comes before it.
"""

import json
import sys
from typing import Any

import msgspec

from pp3.harness.evidence.shapes import PREDICATE, SHAPES, STATEMENT, EnvelopeShape

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """The schema of every kind of receipt."""
    roots, parts = msgspec.json.schema_components([EnvelopeShape, *SHAPES.values()], ref_template="#/$defs/{name}")
    envelope = parts.pop(EnvelopeShape.__name__)
    kinds = [root for root in roots if not root["$ref"].endswith(f"/{EnvelopeShape.__name__}")]
    fixed = {
        "_type": {"const": STATEMENT},
        "predicateType": {"const": PREDICATE},
        "predicate": {"oneOf": kinds},
    }
    return {
        "$schema": DRAFT,
        "$id": PREDICATE,
        **envelope,
        "title": "PP3 receipt, version 1",
        "properties": envelope["properties"] | fixed,
        "$defs": parts,
    }


def render() -> str:
    """The committed file's text."""
    return json.dumps(schema(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
