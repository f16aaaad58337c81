"""A folder with samplers of one's own, and the one line in which the command refuses something there."""

from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit

MINE = """
from pp3 import Description
from pp3.harness.samplers.torch_controls import Multinomial

class Mine(Multinomial):
    pass

mine = Mine()
number = 5

class Nobody:
    def describe(self):
        return "me"
    def run(self, batch):
        return 1

class Raises:
    def __init__(self):
        raise OSError("no weights")

class Misspelt(Multinomial):
    def describe(self):
        return Description(name="x", kind="planar")

class Tickets(Multinomial):
    def describe(self):
        return Description(name="x", kind="verifier", target_carrier="tickets")

class Nothing(Multinomial):
    def describe(self):
        return Description(name="x", kind="plain", max_vocab=3)

class Joint(Multinomial):
    def describe(self):
        return Description(name="x", kind="plain", order="joint", ties="value-only", top_p_ties="lower-id")

class Order(Multinomial):
    def describe(self):
        return Description(name="x", kind="plain", order="sideways")
"""


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], code: Exit = Exit.USAGE, out: bool = True) -> str:
    """The one line of an error; nothing is written."""
    folder = Path("out")
    assert cli.run(["qualify", "--device", "cpu", *arguments, *(["--out", str(folder)] if out else [])]) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    (line,) = streams.err.splitlines()
    assert line.startswith("pp3: error: ")
    assert not folder.exists() or list(folder.iterdir()) == []
    return line.removeprefix("pp3: error: ")
