"""Edits of a syntax tree: made by name, all or none, nothing else touched, and every refusal by its name."""

import ast
from collections.abc import Callable
from dataclasses import replace

import pytest

pytest.importorskip("libcst", reason="LibCST is the extra `image`")

from pp3.harness.overlay import edits  # after the skip
from pp3.harness.overlay.edits import Edit, Marker
from pp3.harness.overlay.refusal import OverlayError, Reason

SOURCE = '''\
# licence
"""A module."""
import math
from os import path


def first(a, flag):
    """Doc."""
    value = min(a, 3)  # a note
    if flag:
        value += 1
    return value


TABLE = {
    "x": 1,
}


class Runner:
    """A class."""

    size = 2

    def step(
        self,
        a,
        b: int = 0,
    ):
        # above
        got, more = call(
            a,
            b,
            mode="x",
        )
        if a:
            return got
        elif b:
            got = 1
        else:
            got = 2
        return got

    def other(self):
        if self.size:
            return call(self)
        return None


def last(): return min(1, 2)
# the end
'''
MARKER = Marker(name="MARK", text="v1", notice="Changed.")
EDITS = (
    edits.instead("clamp", "first", "value", "min", "# why\nvalue = max(a, 4)\nassert value\n"),
    edits.without("no-flag", "first", "flag"),
    edits.body("branch", "Runner.step", "b", "    got = 7\n"),
    edits.before("above", "Runner.step", "got, more", "call", "a = a + 1\n"),
    edits.argument("told", "Runner.step", "call", "kind", "a"),
    edits.parameter("more", "Runner.step", "c: int | None = None"),
)
EDITED = '''\
# Changed.
# licence
"""A module."""
import math
from os import path

MARK = "v1"


def first(a, flag):
    """Doc."""
    # why
    value = max(a, 4)
    assert value
    return value


TABLE = {
    "x": 1,
}


class Runner:
    """A class."""

    size = 2

    def step(
        self,
        a,
        b: int = 0,
        c: int | None = None,
    ):
        a = a + 1
        # above
        got, more = call(
            a,
            b,
            kind=a,
            mode="x",
        )
        if a:
            return got
        elif b:
            got = 7
        else:
            got = 2
        return got

    def other(self):
        if self.size:
            return call(self)
        return None


def last(): return min(1, 2)
# the end
'''


def apply(source: str = SOURCE, made: tuple[Edit, ...] = EDITS) -> str:
    """The edited text."""
    return edits.apply(source.encode(), made, MARKER, "file.py").decode()


def test_every_edit() -> None:
    assert apply() == EDITED


def test_only_the_named_functions_differ() -> None:
    """By another parser: every definition that no edit names is, character for character, what it was."""

    def pieces(text: str) -> dict[str, str | None]:
        found = {}
        for node in ast.parse(text).body:
            members = node.body if isinstance(node, ast.ClassDef) else [node]
            for one in members:
                name = getattr(one, "name", ast.unparse(one))
                found[f"{getattr(node, 'name', '')}.{name}"] = ast.get_source_segment(text, one)
        return found

    before, after = pieces(SOURCE), pieces(apply())
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"first.first", "Runner.step"}
    assert after.keys() - before.keys() == {".MARK = 'v1'"}


def one(name: str) -> tuple[Edit, ...]:
    """The edit of this name, alone."""
    return tuple(edit for edit in EDITS if edit.name == name)


TWICE = SOURCE.replace("    value = min(a, 3)", "    value = min(a, 3)\n    value = min(a, 3)")
REFUSED: list[tuple[str, str, tuple[Edit, ...], Reason, str]] = [
    ("no Python", "def (", EDITS, Reason.PARSE, r"file.py cannot be parsed"),
    ("no UTF-8", "\udcff", EDITS, Reason.PARSE, r"file.py cannot be parsed"),
    ("function gone", SOURCE.replace("first", "fast"), EDITS, Reason.FUNCTION, r"first is there 0 times.*clamp"),
    (
        "function twice",
        SOURCE + "\ndef first(a, flag):\n    return a\n",
        EDITS,
        Reason.FUNCTION,
        r"first is there 2 times",
    ),
    ("method of another class", SOURCE.replace("class Runner", "class Walker"), EDITS, Reason.FUNCTION, r"Runner.step"),
    ("place gone", SOURCE.replace("min(a, 3)", "max(a, 3)"), EDITS, Reason.PLACE, r"clamp changes is in first 0 times"),
    ("place twice", TWICE, one("clamp"), Reason.PLACE, r"clamp changes is in first 2 times"),
    ("branch gone", SOURCE.replace("elif b:", "elif a:"), one("branch"), Reason.PLACE, r"branch .* 0 times"),
    ("call twice", SOURCE.replace("got = 2", "got = call(1, mode=2)"), one("told"), Reason.PLACE, r"told .* 2 times"),
    ("edited already", EDITED, EDITS, Reason.TAKEN, r"MARK is there already"),
    ("parameter taken", SOURCE.replace("b: int = 0", "c: int = 0"), one("more"), Reason.TAKEN, r"a parameter c"),
    ("keyword taken", SOURCE.replace('mode="x"', 'kind="x"'), one("told"), Reason.TAKEN, r"is given kind already"),
    ("no keyword", SOURCE.replace('            mode="x",\n', ""), one("told"), Reason.PLACE, r"no keyword after"),
    ("no plain end", SOURCE.replace("b: int = 0,", "b: int = 0,\n        **c,"), one("more"), Reason.PLACE, r"plain"),
]


@pytest.mark.parametrize(("what", "source", "made", "reason", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refusals(what: str, source: str, made: tuple[Edit, ...], reason: Reason, message: str) -> None:
    with pytest.raises(OverlayError, match=message) as caught:
        edits.apply(source.encode("utf-8", "surrogateescape"), made, MARKER, "file.py")
    assert caught.value.reason is reason
    assert str(caught.value).startswith(f"overlay refused ({reason}): ")


def part(text: str) -> str:
    """The first function of a text."""
    return text[text.index("def first") : text.index("TABLE")]


OUTSIDE = "something outside of its functions came out changed"
TOUCHED: list[tuple[str, Callable[[str], str], str]] = [
    ("another function", lambda text: text.replace("min(1, 2)", "min(1, 3)"), r"last was to stay"),
    ("another method", lambda text: text.replace("return None", "return 0"), r"Runner.other was to stay"),
    ("a statement", lambda text: text.replace('"x": 1', '"x": 2'), OUTSIDE),
    ("a class", lambda text: text.replace("class Runner", "class  Runner"), OUTSIDE),
    ("a comment", lambda text: text.replace("# licence", "# other"), OUTSIDE),
    ("a statement more", lambda text: text + "x = 1\n", OUTSIDE),
    ("the marker twice", lambda text: text.replace("TABLE", 'MARK = "v1"\n\nTABLE'), OUTSIDE),
    ("no notice", lambda text: text.replace("# Changed.\n", ""), OUTSIDE),
    ("an edit undone", lambda text: text.replace(part(text), part(SOURCE)), r"first was to stay, or to change"),
]


@pytest.mark.parametrize(("what", "spoil", "message"), TOUCHED, ids=[row[0] for row in TOUCHED])
def test_what_else_is_touched_is_refused(what: str, spoil: Callable[[str], str], message: str) -> None:
    text = spoil(EDITED)
    with pytest.raises(OverlayError, match=message) as caught:
        edits.check_touched(SOURCE.encode(), text.encode(), EDITS, MARKER, "file.py")
    assert caught.value.reason is Reason.TOUCHED


def test_an_edit_that_changes_nothing_is_refused() -> None:
    idle = replace(EDITS[0], change=lambda node: node)
    with pytest.raises(OverlayError, match="first was to stay, or to change, and did not") as caught:
        apply(made=(idle,))
    assert caught.value.reason is Reason.TOUCHED
