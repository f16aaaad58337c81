"""A page, read: its tags, its text and every address it has; and receipts that are changed for one."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.evidence import receipt

Statement = dict[str, Any]
HOSTILE = "<script>alert(1)</script> &amp; \"'\u202eleft\u0000\u0007\U0001f600" + "x" * 500  # as a name


class Tags(HTMLParser):
    """Tags with their attributes, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


def tags(html: str) -> Tags:
    """A page, read."""
    found = Tags()
    found.feed(html)
    return found


def addresses(html: str) -> list[str]:
    """Every address of a page but those within it and its empty icon."""
    seen = [pair for _, attributes in tags(html).seen for pair in attributes.items()]
    found = [value or "" for key, value in seen if key in ("href", "src")]
    return [address for address in found if not address.startswith("#") and address != "data:,"]


def changed(path: Path, folder: Path, change: Callable[[Statement], object]) -> Path:
    """A receipt with something else in it, under its own name."""
    statement: Statement = canonical.decode(path.read_bytes())
    change(statement)
    return receipt.write(statement, folder)


def measured_at(moment: str) -> Callable[[Statement], object]:
    """A change of the moment."""
    return lambda statement: statement["predicate"]["run"].update(startedUtc=moment)
