"""Fill in a page's template: autoescaped, with every name defined; text of a receipt is never markup."""

from pathlib import Path
from typing import Any

import jinja2

TEMPLATES = Path(__file__).parent / "templates"
TONES = {  # of a verdict, an outcome or a row of the faults' matrix: good news, bad news, neither
    **dict.fromkeys(("PASS", "TOLERATED", "pass", "certain", "CAUGHT", "CONTROL-PASS", "EXACT-ONLY"), "pass"),
    **dict.fromkeys(("NO REGRESSION", "better", "PROBED"), "pass"),
    **dict.fromkeys(("REGRESSION", "worse", "vanished"), "fail"),
    **dict.fromkeys(("FAIL", "INVALID", "fail", "ESCAPED", "CONTROL-FAIL"), "fail"),
}
MARKS = {"pass": "✓", "fail": "✗", "other": "○"}


def fill(name: str, values: dict[str, Any]) -> str:
    """The text of a template. jinja2.UndefinedError for a value that is not there."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"tone": tone, "mark": lambda word: MARKS[tone(word)]}
    environment.filters |= {"but_verdict": but_verdict, "cut": cut}
    environment.tests["numeric"] = numeric
    return environment.get_template(name).render(values)


def tone(word: str) -> str:
    """The class of a verdict or an outcome: pass, fail or other."""
    return TONES.get(word, "other")


def but_verdict(sentence: str, verdict: str) -> str:
    """A sentence without the verdict it begins with, which stands before it as a badge."""
    return sentence.removeprefix(f"{verdict}: ").removeprefix("SURVEY: ")


def cut(text: str, most: int) -> str:
    """A text of at most so many characters, and a sign where more were."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def numeric(cell: Any) -> bool:
    """Whether a cell of a table reads as a number, and stands to the right."""
    if isinstance(cell, int | float):
        return True
    try:
        float(str(cell).replace(",", ""))
    except ValueError:
        return False
    return True
