"""Edits of a source file on its syntax tree, by the names of functions: all of them are made, or none.

An edit names one function and one place in it, which must be there exactly once. Afterwards everything outside the
named functions must be, byte for byte, what it was, but for the notice above the file and the marker below its
imports. Needs LibCST (the extra `image`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import libcst as cst
import libcst.matchers as m

from pp3.harness.overlay.refusal import OverlayError, Reason

Match = Callable[[cst.CSTNode], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change. `change` gets the node as it is and gives what stands in its place."""

    name: str
    function: str  # Class.method for a method
    matches: Match
    change: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A constant of this name and text, put below the imports, and the notice put above the file."""

    name: str
    text: str
    notice: str


def body(name: str, function: str, condition: str, text: str) -> Edit:
    """Put other statements under `if condition:` or `elif condition:`."""
    return Edit(
        name=name,
        function=function,
        matches=_tests(condition),
        change=lambda node: node.with_changes(body=cst.IndentedBlock(body=_statements(text))),
    )


def without(name: str, function: str, condition: str) -> Edit:
    """Leave out a whole `if condition:`."""
    return Edit(name=name, function=function, matches=_tests(condition), change=lambda node: cst.RemoveFromParent())


def instead(name: str, function: str, target: str, called: str, text: str) -> Edit:
    """Put other statements in the place of `target = called(...)`."""
    return Edit(
        name=name,
        function=function,
        matches=_assigns(target, called),
        change=lambda node: cst.FlattenSentinel(_statements(text)),
    )


def before(name: str, function: str, target: str, called: str, text: str) -> Edit:
    """Put statements above `target = called(...)`; a comment above it stays with it."""
    return Edit(
        name=name,
        function=function,
        matches=_assigns(target, called),
        change=lambda node: cst.FlattenSentinel([*_statements(text), node]),
    )


def argument(name: str, function: str, called: str, keyword: str, value: str) -> Edit:
    """Give one call a further keyword, after its positional arguments and before the others."""

    def change(node: cst.Call) -> cst.Call:
        if any(given.keyword and given.keyword.value == keyword for given in node.args):
            raise OverlayError(Reason.TAKEN, f"{called}() in {function} is given {keyword} already")
        at = sum(given.keyword is None and not given.star for given in node.args)
        if not 0 < at < len(node.args):
            raise OverlayError(Reason.PLACE, f"{name}: {called}() in {function} has no keyword after what is in order")
        comma = node.args[at - 1].comma
        added = cst.Arg(keyword=cst.Name(keyword), equal=_TIGHT, value=cst.parse_expression(value), comma=comma)
        return node.with_changes(args=[*node.args[:at], added, *node.args[at:]])

    return Edit(
        name=name,
        function=function,
        matches=lambda node: m.matches(node, m.Call(func=m.Name(called))),
        change=change,
    )


def parameter(name: str, function: str, declaration: str) -> Edit:
    """Give a function a further parameter, the last, `declaration` being as in `name: int = 0`."""
    added = cst.ensure_type(cst.parse_module(f"def _({declaration}): ...").body[0], cst.FunctionDef).params.params[0]

    def change(node: cst.FunctionDef) -> cst.FunctionDef:
        given = node.params
        if any(one.name.value == added.name.value for one in (*given.params, *given.kwonly_params)):
            raise OverlayError(Reason.TAKEN, f"{function} has a parameter {added.name.value} already")
        if not given.params or given.star_kwarg or given.kwonly_params:
            raise OverlayError(Reason.PLACE, f"{name}: {function} does not end with plain parameters")
        *others, last = given.params
        between = others[-1].comma if others else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        params = [*others, last.with_changes(comma=between), added.with_changes(comma=last.comma)]
        return node.with_changes(params=given.with_changes(params=params))

    return Edit(name=name, function=function, matches=lambda node: isinstance(node, cst.FunctionDef), change=change)


def apply(source: bytes, edits: Sequence[Edit], marker: Marker, where: str) -> bytes:
    """The edited file. OverlayError for anything that is not as the edits expect it; `where` names the file."""
    module = _parse(source, where)
    text = source.decode("utf-8")
    if marker.name in text:
        raise OverlayError(Reason.TAKEN, f"{where}: {marker.name} is there already, so this is no release's file")
    found = functions(module)
    for edit in edits:
        count = sum(name == edit.function for name, _ in found)
        if count != 1:
            raise OverlayError(
                Reason.FUNCTION, f"{where}: {edit.function} is there {count} times, not once ({edit.name})"
            )
    for edit in edits:
        editor = _Editor(edit)
        module = module.visit(editor)
        if editor.seen != 1:
            raise OverlayError(
                Reason.PLACE, f"{where}: what {edit.name} changes is in {edit.function} {editor.seen} times, not once"
            )
    module = _marked(module, marker)
    result = module.code.encode("utf-8")
    _parse(result, f"{where} as edited")
    check_touched(source, result, edits, marker, where)
    return result


def check_touched(source: bytes, result: bytes, edits: Sequence[Edit], marker: Marker, where: str) -> None:
    """OverlayError unless the two differ in every named function, the notice and the marker, and in nothing else."""
    was, now = _marked(_parse(source, where), marker), _parse(result, where)
    if outline(was) != outline(now):
        raise OverlayError(Reason.TOUCHED, f"{where}: something outside of its functions came out changed")
    pairs = zip(functions(was), functions(now), strict=True)
    touched = {name for (name, one), (_, other) in pairs if was.code_for_node(one) != now.code_for_node(other)}
    odd = sorted(touched ^ {edit.function for edit in edits})
    if odd:
        raise OverlayError(Reason.TOUCHED, f"{where}: {odd[0]} was to stay, or to change, and did not")


def functions(module: cst.Module) -> list[tuple[str, cst.FunctionDef]]:
    """Every function of a module and method of its classes, by name, in order."""
    found = []
    for statement in module.body:
        if isinstance(statement, cst.FunctionDef):
            found.append((statement.name.value, statement))
        elif isinstance(statement, cst.ClassDef):
            found += [
                (f"{statement.name.value}.{one.name.value}", one)
                for one in statement.body.body
                if isinstance(one, cst.FunctionDef)
            ]
    return found


def outline(module: cst.Module) -> str:
    """The text of a module with the name of each function in its place."""
    return module.visit(_Names()).code


class _Names(cst.CSTTransformer):
    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802  # LibCST's name
        return False

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> Any:  # noqa: N802
        return cst.parse_statement(f"{original_node.name.value}\n")


class _Editor(cst.CSTTransformer):
    """Makes one edit wherever it matches, and counts."""

    def __init__(self, edit: Edit) -> None:
        super().__init__()
        self.edit, self.seen = edit, 0
        self._scope: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._scope.append(node.name.value)
        return super().on_visit(node)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        left: Any = super().on_leave(original_node, updated_node)
        inside = ".".join(self._scope) == self.edit.function
        if isinstance(original_node, (cst.FunctionDef, cst.ClassDef)):
            self._scope.pop()
        if not inside or not self.edit.matches(original_node):
            return left
        self.seen += 1
        return self.edit.change(left)


_TIGHT = cst.AssignEqual(
    whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
)  # as in f(a=1)


def _tests(condition: str) -> Match:
    return lambda node: m.matches(node, m.If(test=m.Name(condition)))


def _assigns(target: str, called: str) -> Match:
    """`target = called(...)`, of one name or of several: "a, b"."""
    names = target.split(", ")
    left: Any = m.Name(names[0])
    if len(names) > 1:
        left = m.Tuple(elements=[m.Element(value=m.Name(name)) for name in names])
    assign = m.Assign(targets=[m.AssignTarget(target=left)], value=m.Call(func=m.Name(called)))
    return lambda node: m.matches(node, m.SimpleStatementLine(body=[assign]))


def _statements(text: str) -> list[Any]:
    """Statements of a text; comments above the first stay with it."""
    module = cst.parse_module(dedent(text))
    first: Any = module.body[0]
    return [first.with_changes(leading_lines=[*module.header, *first.leading_lines]), *module.body[1:]]


def _marked(module: cst.Module, marker: Marker) -> cst.Module:
    """The notice above everything, the marker after the last import."""
    last = max((at for at, one in enumerate(module.body) if _imports(one)), default=-1)
    constant = cst.parse_statement(f'{marker.name} = "{marker.text}"\n').with_changes(leading_lines=[cst.EmptyLine()])
    notice = cst.EmptyLine(indent=False, comment=cst.Comment(f"# {marker.notice}"))
    return module.with_changes(
        header=[notice, *module.header], body=[*module.body[: last + 1], constant, *module.body[last + 1 :]]
    )


def _imports(statement: Any) -> bool:
    return m.matches(statement, m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()]))


def _parse(source: bytes, where: str) -> cst.Module:
    try:
        return cst.parse_module(source.decode("utf-8"))
    except (cst.ParserSyntaxError, UnicodeDecodeError) as error:
        said = str(error).splitlines()[0]
        raise OverlayError(Reason.PARSE, f"{where} cannot be parsed: {said}") from None
