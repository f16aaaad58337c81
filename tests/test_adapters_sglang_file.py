"""SGLang's file: never run unless it is the pinned one, and brought into the cache whole or not at all."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.samplers import sglang_file
from pp3.harness.samplers.sglang_file import NAME, Pin

CONTENT = b"answer = 42\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; the pinned version 9 is CONTENT, and pip's wheel of it lies beside."""
    wheel = tmp_path / "sglang.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(NAME, CONTENT)
    pin = Pin(wheel="", file=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setenv("PP3_IMAGE", str(tmp_path / "cache"))
    monkeypatch.setitem(sglang_file.PINS, "9", pin)
    monkeypatch.setattr(sglang_file, "bring", lambda *_: wheel)
    sglang_file.load.cache_clear()
    return tmp_path / "cache"


def test_it_is_fetched_once_and_loaded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sglang_file.fetch("9")
    assert path == home / "sglang-9" / NAME
    assert path.stat().st_mode & 0o777 == sglang_file.READ_ONLY
    assert [entry.name for entry in home.iterdir()] == ["sglang-9"]
    monkeypatch.delattr(sglang_file, "bring")
    assert sglang_file.fetch("9") == path
    assert sglang_file.load("9").module.answer == 42


def test_another_wheel_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sglang_file.PINS, "9", Pin(wheel="", file="0" * 64))
    with pytest.raises(CampaignError, match="it was changed"):
        sglang_file.fetch("9")
    assert [*home.iterdir()] == []


def test_a_changed_file_is_not_run(home: Path) -> None:
    path = sglang_file.fetch("9")
    path.chmod(0o644)
    path.write_bytes(b"raise SystemExit\n")
    for refused in (sglang_file.load, sglang_file.fetch):
        with pytest.raises(CampaignError, match="it was changed"):
            refused("9")


@pytest.mark.usefixtures("home")
def test_what_is_not_there_is_said() -> None:
    assert "make sglang" in sglang_file.missing("9")
    with pytest.raises(PP3Error) as raised:
        sglang_file.find("9")
    assert raised.value.exit_code is Exit.UNAVAILABLE
    assert "not pinned" in sglang_file.missing("8")
    assert sglang_file.main(["8"]) == Exit.USAGE
    assert sglang_file.main(["9"]) == Exit.OK
    assert sglang_file.missing("9") == ""
