"""A table in Markdown."""

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A line each; what would end a cell is escaped."""
    names = list(head)
    return _line(names) + "|" + "---|" * len(names) + "\n" + "".join(map(_line, rows))


def code(text: str) -> str:
    """Text as code; empty stays empty."""
    return f"`{text}`" if text else ""


def _line(cells: Iterable[str]) -> str:
    said = [" ".join(cell.split()).replace("|", r"\|") for cell in cells]
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in said) + "\n"
