"""Campaign files of a test, with a target of their own, and their loading."""

from pathlib import Path

from pp3.harness import campaign as campaigns
from pp3.harness.campaign import Campaign

SMALL = """
name = "small"
targets = ["mine"]
requests = 2_000
paired = 30
batch_sizes = [1, 3]
depths = [4]
"""
ROW = "{ ids = [3, 7], weights = [8388608, 8388608], draft_ids = [3, 9], draft_logits = [1.0, 0.5] }"
OTHER = "{ ids = [5, 9], weights = [12582912, 4194304], draft_ids = [5, 9], draft_logits = [0.25, -2.0] }"


def own(rows: str = ROW, **keys: str) -> str:
    """A campaign of one target; keys replace or join those of the target, as TOML text."""
    table = {"name": '"mine"', "vocab": "64", "rows": f"[{rows}]"} | keys
    return f"{SMALL}\n[[target]]\n" + "\n".join(f"{key} = {text}" for key, text in table.items())


def row(**keys: str) -> str:
    """The row with some keys replaced, as TOML text."""
    table = {
        "ids": "[3, 7]",
        "weights": "[8388608, 8388608]",
        "draft_ids": "[3, 9]",
        "draft_logits": "[1.0, 0.5]",
    } | keys
    return "{ " + ", ".join(f"{key} = {text}" for key, text in table.items()) + " }"


def load(text: str, folder: Path) -> Campaign:
    """A campaign from text, by way of a file."""
    path = folder / "campaign.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return campaigns.load(path)
