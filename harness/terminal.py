"""What a command says on a terminal: tables that fit its width, folded lines, colour that repeats what a word says.

Width is the terminal's, or COLUMNS; 80 where there is no terminal. Prose goes on below, broken at spaces; a long word
is broken at its joints, or loses its middle. A sentence that a script may read is one line where nobody looks; a path
or a command to copy is whole everywhere. Colour only on a terminal, without NO_COLOR, of a kind other than dumb.
Names come from receipts: whatever is not printable, or not in stdout's encoding, is shown as an escape.
"""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

import click
from rich.cells import cell_len

WIDTH = 80  # where there is no terminal to ask
WIDEST = 120  # a longer line is hard to read
GAP = "  "
CUT = "..."
NARROWEST = 8  # of a column that gives way; where even that is too wide, each row becomes a block of lines
VERDICT = re.compile("(?<=verdict=)[A-Z]+")
JOINTS = (re.compile("(?<=/)"), re.compile("(?<=[-_.,:])"))  # of a word that is too long, where it is broken
LABEL = 15  # columns of the words before a line


class Tone(Enum):
    """What a colour repeats."""

    GOOD = "green"
    BAD = "red"
    OPEN = "yellow"


WORDS = {
    "PASS": Tone.GOOD,
    "TOLERATED": Tone.GOOD,
    "VERIFIED": Tone.GOOD,
    "PROBED": Tone.GOOD,
    "CAUGHT": Tone.GOOD,
    "CONTROL-PASS": Tone.GOOD,
    "EXACT-ONLY": Tone.GOOD,
    "NO REGRESSION": Tone.GOOD,
    "WHOLE": Tone.GOOD,
    "ok": Tone.GOOD,
    "current": Tone.GOOD,
    "FAIL": Tone.BAD,
    "INVALID": Tone.BAD,
    "NOT VERIFIED": Tone.BAD,
    "NOT WHOLE": Tone.BAD,
    "ESCAPED": Tone.BAD,
    "CONTROL-FAIL": Tone.BAD,
    "REGRESSION": Tone.BAD,
    "BROKEN": Tone.BAD,
    "fail": Tone.BAD,
    "altered": Tone.BAD,
    "problem": Tone.BAD,
    "INCONCLUSIVE": Tone.OPEN,
    "INCOMPARABLE": Tone.OPEN,
    "WEAKER": Tone.OPEN,
    "NOT RECOMPUTED": Tone.OPEN,
    "unresolved": Tone.OPEN,
    "skip": Tone.OPEN,
    "note": Tone.OPEN,
}  # the colour of a word, never without it


class Fit(StrEnum):
    """What becomes of a text that is wider than its column."""

    WHOLE = "whole"  # the column is as wide as its widest
    CUT = "cut"  # it loses its middle
    FOLD = "fold"  # it goes on below


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    head: str
    fit: Fit = Fit.WHOLE
    right: bool = False


def width() -> int:
    """Columns to write in."""
    return min(shutil.get_terminal_size((WIDTH, 24)).columns or WIDTH, WIDEST)


def watched() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def coloured() -> bool:
    """Whether colours are written (no-color.org)."""
    return watched() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def toned(text: str, word: str | None = None) -> str:
    """A text in the colour of a word, by default its own; as it is for another word, or where no colour is written."""
    tone = WORDS.get((text if word is None else word).strip())
    return click.style(text, fg=tone.value, bold=True) if tone and coloured() else text


def bold(text: str) -> str:
    """A heading."""
    return click.style(text, bold=True) if coloured() else text


def clean(text: str) -> str:
    """A text that moves no cursor and turns no direction: what is not printable as an escape."""
    whole = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return whole.encode(encoding, "backslashreplace").decode(encoding)


def shorten(text: str, room: int) -> str:
    """A text in at most `room` columns, its middle left out."""
    if cell_len(text) <= room:
        return text
    if room <= len(CUT):
        return CUT[:room]
    left = (room - len(CUT)) // 2
    return _start(text, left) + CUT + _start(text[::-1], room - len(CUT) - left)[::-1]


def fold(text: str, room: int, hang: str = "") -> list[str]:
    """Lines of at most `room` columns, broken at spaces; all but the first begin with `hang`.

    A word that is longer is broken at its joints, and a part that is longer still loses its middle.
    """
    lines, line = [], ""
    for before, word in _words(text, room - len(hang)):
        if not line.strip() or cell_len(line + before + word) <= room:
            line += (before if line.strip() else "") + word
        else:
            lines.append(line)
            line = hang + word
    return [*lines, line]


def _words(text: str, room: int) -> list[tuple[str, str]]:
    """What may stand at the start of a line, each with what stands before it elsewhere."""
    found = []
    for word in text.split(" "):
        parts = [word]
        for joint in JOINTS:
            parts = [part for whole in parts for part in (joint.split(whole) if cell_len(whole) > room else [whole])]
        found += [("" if at else " ", shorten(part, max(room, 1))) for at, part in enumerate(filter(None, parts))]
    return found


def sentence(text: str) -> list[str]:
    """A conclusion, its leading word or words in colour: folded on a terminal, one line where a script reads it."""
    text = clean(text)
    lines = fold(text, width()) if watched() else [text]
    lead = max((word for word in WORDS if text.startswith(word)), key=len, default="")
    lines = [VERDICT.sub(lambda found: toned(found[0]), line) for line in lines]
    return [toned(lead) + lines[0].removeprefix(lead), *lines[1:]]


def labelled(label: str, text: str, word: str = "", room: int = LABEL) -> list[str]:
    """A label, and a text folded beside it; the label in the colour of a word, if one is given."""
    first, *rest = fold(clean(text), width() - room)
    return [toned(f"{label:{room}}", word) + first, *(f"{'':{room}}{line}" for line in rest)]


def step(outcome: str, text: str, number: str = "") -> list[str]:
    """An outcome and what it is of, numbered or not: folded on a terminal, one line where a script reads it."""
    text, room = clean(text), len(number) + 5
    first, *rest = fold(text, width() - room) if watched() else [text]
    return [f"{number}{toned(f'{outcome:4}')} {first}", *(f"{'':{room}}{line}" for line in rest)]


def kept(label: str, text: str, room: int = LABEL) -> str:
    """A label, and what is copied: whole, whatever the width."""
    return f"{label:{room}}{clean(text)}"


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table that fits the width; a word with a colour is coloured, a column without content left out."""
    cells = [[clean(cell) for cell in row] for row in rows]
    empty = not any(any(row) for row in cells)
    shown = [at for at, column in enumerate(columns) if empty or not column.head or any(row[at] for row in cells)]
    columns, cells = [columns[at] for at in shown], [[row[at] for at in shown] for row in cells]
    sizes = _sizes(columns, cells)
    if sizes is None:
        return _blocks(columns, cells)
    heads = [bold(line) for line in _row(columns, [column.head for column in columns], sizes)]
    return [*heads, *(line for row in cells for line in _row(columns, row, sizes))]


def _sizes(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int] | None:
    """The width of each column: those that give way share what the others leave; None if that is too little."""
    texts = [[column.head, *cells] for column, *cells in zip(columns, *rows, strict=True)]
    sizes = [max(map(cell_len, cells)) for cells in texts]
    giving = sorted((at for at, column in enumerate(columns) if column.fit is not Fit.WHOLE), key=lambda at: sizes[at])
    left = width() - len(GAP) * (len(columns) - 1)
    left -= sum(size for at, size in enumerate(sizes) if at not in giving)
    for rank, at in enumerate(giving):
        size = min(sizes[at], left // (len(giving) - rank))
        if size < min(sizes[at], NARROWEST):
            return None
        if columns[at].fit is Fit.FOLD:  # what its lines leave is for wider columns
            size = max(cell_len(line) for text in texts[at] for line in fold(text, size))
        sizes[at], left = size, left - size
    return sizes if left >= 0 else None


def _row(columns: Sequence[Column], cells: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """The lines of one row."""
    parts = []
    for column, cell, size in zip(columns, cells, sizes, strict=True):
        parts.append(fold(cell, size) if column.fit is Fit.FOLD else [shorten(cell, size)])
    lines = []
    for at in range(max(map(len, parts))):
        texts = []
        for column, part, size in zip(columns, parts, sizes, strict=True):
            text = part[at] if at < len(part) else ""
            space = " " * (size - cell_len(text))
            texts.append(space + toned(text) if column.right else toned(text) + space)
        lines.append(GAP.join(texts).rstrip())
    return lines


def _blocks(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """Each row as lines of head and value, for a width that holds no table."""
    room = min(max(len(column.head) for column in columns) + len(GAP), width() // 2)
    lines = []
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            first, *rest = fold(cell, max(width() - room, 1))
            lines += [f"{shorten(column.head, room - 1):{room}}{toned(first)}", *(f"{'':{room}}{one}" for one in rest)]
        lines.append("")
    return lines[:-1]


def _start(text: str, room: int) -> str:
    """As much of the start of a text as fits."""
    end = min(len(text), max(room, 0))  # a column holds a character at most
    while cell_len(text[:end]) > room:
        end -= 1
    return text[:end]
