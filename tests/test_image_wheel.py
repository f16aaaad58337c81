"""What pip is asked for, and what is said where it brings nothing: with a pip of our own, and no network."""

import sys
from pathlib import Path

import pytest

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.image.wheel import bring

PINNED = "0" * 64


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python that keeps its arguments and does what `pip.do` says."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n. {tmp_path}/do\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    return tmp_path


def test_the_pinned_wheel_for_one_platform_is_asked_for(pip: Path) -> None:
    place = pip / "wheel"
    (pip / "do").write_text(f"mkdir {place}; touch {place}/one.whl\n")
    assert bring("some", "1.2", PINNED, "2_28", pip) == place / "one.whl"
    assert (pip / "requirements.txt").read_text() == f"some==1.2 --hash=sha256:{PINNED}\n"
    asked = (pip / "asked").read_text().split()
    assert {"--require-hashes", "--no-deps", "manylinux_2_28_x86_64"} < set(asked)
    assert asked[asked.index("--only-binary") + 1] == ":all:"


FAILURES = {
    "pip fails": "exit 1",
    "pip fails after it brought one": "mkdir wheel; touch wheel/one.whl; exit 3",
    "pip brings nothing": "exit 0",
    "pip brings two": "mkdir wheel; touch wheel/one.whl wheel/two.whl",
}


@pytest.mark.parametrize("act", FAILURES.values(), ids=FAILURES)
def test_a_wheel_that_is_not_brought_is_unavailable(pip: Path, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    monkeypatch.chdir(pip)
    (pip / "do").write_text(act + "\n")
    with pytest.raises(PP3Error, match=f"the wheel of some 1.2 with sha256 {PINNED}.*network, or give it") as raised:
        bring("some", "1.2", PINNED, "2_28", pip, ", or give it")
    assert raised.value.exit_code == Exit.UNAVAILABLE
