"""`pp3 survey --within`: what it refuses, and a survey whose time is over before it begins."""

from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit

SURVEY = ["survey", "--device", "cpu", "--sampler", "torch-multinomial", "--requests", "200"]


@pytest.mark.parametrize("seconds", ["0", "-1"])
def test_no_time_is_refused(seconds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*SURVEY, "--within", seconds, "--out", str(tmp_path / "out")]) == Exit.USAGE
    assert f"--within {seconds}; it must be more than 0 seconds" in capsys.readouterr().err


def test_time_that_is_over_before_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """4, with the reason of each, and no receipt of nothing."""
    assert cli.run([*SURVEY, "--within", "1e-9", "--out", str(tmp_path / "out")]) == Exit.NOTHING_RAN
    assert "the time given by --within was over before it could begin" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))
