"""A TOML document as users write it: read it, and say what is wrong with it."""

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError

KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=", re.MULTILINE)
NUMBER = re.compile(r"[0-9](?:_?[0-9])*")
DEEPEST = 20  # brackets within brackets; a campaign has four


def read(path: Path) -> dict[str, Any]:
    """The TOML document of a campaign file. CampaignError if it cannot be read."""
    try:
        text = path.read_text("utf-8")
        return tomllib.loads(text)
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}; give the path of a campaign file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CampaignError(f"{path}: not TOML: {error}") from None
    except ValueError:  # a number of more digits than Python reads
        longest = max(NUMBER.finditer(text), key=lambda found: found.end() - found.start())
        digits = longest[0].replace("_", "")
        value = f"{digits[:20]}... ({len(digits):,} digits)"
        raise CampaignError(f"{path}: {_key_at(text, longest.start())} = {value}; write a smaller number") from None
    except RecursionError:
        key = _key_at(text, _too_deep(text))
        raise CampaignError(f"{path}: {key} is nested deeper than {DEEPEST}; a campaign needs four levels") from None


def _key_at(text: str, place: int) -> str:
    """The last key that begins a line before a place."""
    keys = KEY.findall(text, 0, place)
    return keys[-1] if keys else "a value"


def _too_deep(text: str) -> int:
    """Where brackets first lie deeper than DEEPEST, those in strings and comments counted too."""
    depth = 0
    for found in re.finditer(r"[\[{\]}]", text):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST:
            return found.start()
    return len(text)


def explain(message: str, document: dict[str, Any], kinds: tuple[type[msgspec.Struct], ...]) -> str:
    """msgspec's message, with the nearest key for a misspelt one and the value for a wrong type.

    kinds are those of the document, of the tables in its lists, of the tables in theirs.
    """
    said, _, at = message.partition(" - at `$")
    path = at.rstrip("`").removeprefix(".")
    if "unknown field" in said:
        key = said.split("`")[1]
        kind = kinds[min(path.count("["), len(kinds) - 1)]
        fields = [field.name for field in msgspec.structs.fields(kind)]
        near = difflib.get_close_matches(key, fields, 1)
        place = f" of {path}" if path else ""
        hint = f"did you mean {near[0]!r}?" if near else f"keys are {', '.join(fields)}"
        return f"unknown key {echo(key)}{place}; {hint}"
    if not path:
        return message
    found: Any = document
    try:
        for part in re.findall(r"[A-Za-z_]\w*|\d+", path):
            found = found[int(part) if part.isdigit() else part]
    except (KeyError, IndexError, TypeError):
        return message
    return f"{path} = {echo(found)}: {said}"


def promised(document: dict[str, Any], where: str) -> dict[str, Any]:
    """What a table [detect] stands for: its tv is `detect`, its power `power`. CampaignError names a wrong key."""
    table = document.get("detect")
    if not isinstance(table, dict):
        return {}
    for key, value in table.items():
        if key not in ("tv", "power"):
            raise CampaignError(f"{where}: unknown key {echo(key)} of detect; keys are tv, power")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise CampaignError(f"{where}: detect.{key} = {echo(value)}; it must be a number")
    if "tv" not in table:
        raise CampaignError(f"{where}: [detect] has no tv; give the total variation that must be seen")
    if "power" in table and "power" in document:
        raise CampaignError(f"{where}: power is given twice, by itself and in [detect]; keep one")
    return {"detect": float(table["tv"])} | ({"power": float(table["power"])} if "power" in table else {})
