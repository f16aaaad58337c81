"""Campaigns in pieces at the command line: run, merged, and what their receipts say."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pp3.harness import canonical, cli
from pp3.harness.errors import Exit
from pp3.harness.evidence import store

CAMPAIGN = 'targets = ["sparse-tail"]\nrequests = 203\npaired = 17\n'
INCONCLUSIVE = Exit.INCONCLUSIVE  # 203 requests decide nothing
OF_RUN = (
    "run",
    "execution",
    "seed",
    "environment",
    "timings",
)  # what two runs may say differently; the seed's `chosen`


def run(*arguments: str | Path) -> int:
    """pp3 qualify, in this process."""
    return cli.run(["qualify", *map(str, arguments)])


def go_home(patch: pytest.MonkeyPatch, home: Path, quick_pieces: ModuleType) -> None:
    """Without the interpreter, and with counters of its own."""
    quick_pieces.install(patch.setattr)
    patch.setattr(store, "find_checkout", lambda: None)
    home.mkdir(exist_ok=True)
    patch.chdir(home)


def campaign_in(folder: Path) -> Path:
    """A small campaign file."""
    path = folder / "small.toml"
    path.write_text(CAMPAIGN)
    return path


def finished_in(root: Path, quick_pieces: ModuleType) -> Path:
    """A campaign in pieces that is done, counter 9: its folder `d`, its receipt in `o`."""
    with pytest.MonkeyPatch.context() as patch:
        go_home(patch, root, quick_pieces)
        given = ("--campaign", campaign_in(root), "--dir", root / "d", "--counter", "9", "--out", root / "o")
        assert run(*given) == INCONCLUSIVE
    return root


def predicate_in(folder: Path) -> dict[str, Any]:
    """Of the only receipt in a folder, which verifies."""
    [path] = folder.glob("*.json")
    assert cli.run(["verify", str(path)]) == Exit.OK
    return dict(canonical.decode(path.read_bytes())["predicate"])


def counts(predicate: dict[str, Any]) -> bytes:
    """Everything but when and how it was run, in canonical bytes."""
    return canonical.encode({key: value for key, value in predicate.items() if key not in OF_RUN})


def part_of(folder: Path) -> Path:
    """A part of requests."""
    return sorted((folder / "parts").glob("requests,*"))[0]
