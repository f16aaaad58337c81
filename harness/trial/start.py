"""`pp3 init`: write a campaign and an adapter that run as they are."""

from pathlib import Path

from pp3.harness.errors import CampaignError

STARTER = Path(__file__).parent / "starter"
FILES = ("campaign.toml", "my_sampler.py")


def write_starter(folder: Path) -> list[Path]:
    """Write both files. CampaignError, and nothing written, if one is there already."""
    there = [name for name in FILES if (folder / name).exists()]
    if there:
        raise CampaignError(f"{folder / there[0]} exists already; give another folder: pp3 init NEW")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CampaignError(f"{folder}: {error.strerror}; give a folder that can be written") from None
    for name in FILES:
        with (folder / name).open("xb") as file:
            file.write((STARTER / name).read_bytes())
    return [folder / name for name in FILES]
