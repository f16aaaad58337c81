"""Numbers of requests on the command line: which spellings are taken, and what is said of the others."""

import pytest

from pp3.harness import cli
from pp3.harness.count import COUNT
from pp3.harness.errors import Exit


@pytest.mark.parametrize(
    ("said", "meant"),
    [("20000", 20_000), ("20_000", 20_000), ("2e4", 20_000), ("1.5E6", 1_500_000), ("+7", 7), ("-5", -5), ("0", 0)],
)
def test_a_whole_number_is_taken_however_it_is_written(said: str, meant: int) -> None:
    assert COUNT.convert(said, None, None) == meant


def test_a_default_stays_what_it_is() -> None:
    assert COUNT.convert(10_000, None, None) == 10_000


@pytest.mark.parametrize("said", ["1.5", "1e-1", "1e18", "1e999999999", "nan", "inf", "many", "", "1,000"])
@pytest.mark.parametrize(
    "command", [["qualify", "--requests"], ["qualify", "--engine", "reference", "--tokens"], ["survey", "--requests"]]
)
def test_anything_else_is_refused_with_an_example(
    command: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*command, said]) == Exit.USAGE
    printed = capsys.readouterr().err
    assert f"'{command[-1]}': {said!r} is not a whole number" in printed
    assert "like 20000 or 2e4" in printed
