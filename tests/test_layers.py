"""Who imports whom: no circle while modules load, and no layer that reaches for one above it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import pp3

TREE = Path(pp3.__file__).parent


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module of pp3 by another."""

    by: str
    of: str
    late: bool  # inside a function, or for types alone


@cache
def imports() -> tuple[Import, ...]:
    """Every import between modules of pp3, read from their text."""
    files = {_name(path): path for top in ("harness", "kernels", "targets") for path in _files(TREE / top)}
    assert len(files) > 250
    found = []
    for name, path in files.items():
        for module, names, late in _written(ast.parse(path.read_bytes()), late=False):
            wanted = {f"{module}.{one}" for one in names} & files.keys() or {module} & files.keys()
            found += [Import(name, of, late) for of in sorted(wanted)]
    return tuple(found)


def _files(top: Path) -> Iterator[Path]:
    """Modules of a folder; kernels/typings holds stubs of others."""
    return (path for path in sorted(top.rglob("*.py")) if "typings" not in path.parts)


def _name(path: Path) -> str:
    parts = ("pp3", *path.relative_to(TREE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _written(node: ast.AST, late: bool) -> Iterator[tuple[str, list[str], bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and child.module:
            yield child.module, [alias.name for alias in child.names], late
        elif isinstance(child, ast.Import):
            yield from ((alias.name, [], late) for alias in child.names)
        for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        yield from _written(child, late or for_types or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def circle(found: tuple[Import, ...]) -> list[str]:
    """Modules that import each other while they load, or none: what is left when leaves are taken away."""
    left = {(one.by, one.of) for one in found if not one.late}
    while left:
        by, of = {by for by, _ in left}, {of for _, of in left}
        kept = {(a, b) for a, b in left if a in of and b in by}
        if kept == left:
            return sorted(by)
        left = kept
    return []


def reaches(found: tuple[Import, ...], layer: str, above: str, but: tuple[str, ...]) -> list[str]:
    """Imports of a layer above, those in functions too, but of the modules that are only words and shapes."""
    return [
        f"{one.by} imports {one.of}"
        for one in found
        if _in(one.by, layer) and _in(one.of, above) and one.of not in but and not _in(one.of, layer)
    ]


def _in(module: str, layer: str) -> bool:
    return module == layer or module.startswith(f"{layer}.")


ABOVE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "kernels know no harness": ("pp3.kernels", "pp3.harness", ()),
    "kernels know no targets": ("pp3.kernels", "pp3.targets", ()),
    "targets know no harness": ("pp3.targets", "pp3.harness", ()),
    "targets know of kernels the reference alone": ("pp3.targets", "pp3.kernels", ("pp3.kernels.reference",)),
    "evidence runs no sampler": ("pp3.harness.evidence", "pp3.harness.samplers", ("pp3.harness.samplers.contract",)),
    "evidence draws nothing": ("pp3.harness.evidence", "pp3.harness.report", ()),
    "evidence loads no image": ("pp3.harness.evidence", "pp3.harness.image", ("pp3.harness.image.pins",)),
    "evidence starts nothing": ("pp3.harness.evidence", "pp3.harness.operations", ()),
    "a page runs no sampler": ("pp3.harness.report", "pp3.harness.samplers", ()),
    "a page loads no image": ("pp3.harness.report", "pp3.harness.image", ()),
    "an engine is asked, not loaded": ("pp3.harness.engine", "pp3.harness.samplers", ()),
    "the wire knows no trial": ("pp3.harness.transport", "pp3.harness.trial", ()),
    "the wire knows no engine": ("pp3.harness.transport", "pp3.harness.engine", ()),
    "exact results need no trial": ("pp3.harness.exact", "pp3.harness.trial", ()),
    "samplers write no evidence": ("pp3.harness.samplers", "pp3.harness.evidence", ()),
}


@pytest.mark.parametrize(("layer", "above", "but"), ABOVE.values(), ids=ABOVE)
def test_a_layer_knows_nothing_above_it(layer: str, above: str, but: tuple[str, ...]) -> None:
    assert any(_in(one.by, layer) for one in imports())
    assert reaches(imports(), layer, above, but) == []


def test_no_module_loads_itself_through_others() -> None:
    assert circle(imports()) == []


def test_a_circle_and_a_reach_are_seen() -> None:
    """Planted: a circle of three with a leaf on either side; an import of a layer above in a function."""
    edges = (("leaf", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "below"))
    planted = tuple(Import(by, of, False) for by, of in edges)
    assert circle(planted) == ["a", "b", "c"]
    assert circle((*planted[:3], Import("c", "a", True))) == []
    up = (Import("pp3.kernels.x", "pp3.harness.run", True), Import("pp3.kernels.x", "pp3.kernels.y", False))
    assert reaches(up, "pp3.kernels", "pp3.harness", ()) == ["pp3.kernels.x imports pp3.harness.run"]
    assert reaches(up, "pp3.kernels", "pp3.harness", ("pp3.harness.run",)) == []
