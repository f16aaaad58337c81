"""The pages, by the names of their files, and how they are written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from pp3.harness.errors import CampaignError
from pp3.harness.reference import checks, commands, fields, keys, laws

COMMAND = "python3 -m pp3.harness.reference --write docs/reference"
MARK = f"<!-- written by {COMMAND} -->\n"
PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "campaign.md": keys.page,
        "checks.md": checks.page,
        "cli.md": commands.page,
        "receipt.md": fields.page,
        "targets.md": laws.page,
    }
)


def render(name: str) -> str:
    """A page as its file holds it. KeyError if there is none of this name."""
    return MARK + PAGES[name]()


def write(folder: Path) -> list[Path]:
    """Write every page, over what is there. CampaignError if there is no such folder."""
    if not folder.is_dir():
        raise CampaignError(f"{folder}: no such folder; give docs/reference of a checkout")
    for name in PAGES:
        (folder / name).write_text(render(name), "utf-8")
    return [folder / name for name in PAGES]
