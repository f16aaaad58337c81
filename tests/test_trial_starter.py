"""`pp3 init`: what it writes runs as it is, a bug in it is found, and nothing that is there is overwritten."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit
from pp3.harness.evidence.verify import verify
from pp3.harness.trial.plan import TrialSpec
from pp3.harness.trial.start import FILES, STARTER

RIGHT = "batch.logits / batch.temperature[:, None]"
BUGS = {
    "no temperature": "batch.logits",
    "a temperature for all": "batch.logits / batch.temperature[:1, None]",
    "another row": "batch.logits.roll(1, 0) / batch.temperature[:, None]",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder of the user's, beside the current one, as `pp3 init` leaves it."""
    monkeypatch.chdir(tmp_path)
    assert cli.run(["init", "mine"]) == Exit.OK
    return tmp_path / "mine"


def qualify(*more: str) -> int:
    """The campaign, from another folder than its own."""
    options = ["--device", "cpu", "--counter", "7", "--out", "out", *more]
    return cli.run(["qualify", "--campaign", "mine/campaign.toml", *options])


def test_it_says_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["init", "mine"]) == Exit.OK
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "mine/campaign.toml",
        "mine/my_sampler.py",
        "try them with  pp3 qualify --campaign mine/campaign.toml",
    ]
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == sorted(FILES)


def test_it_runs_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert qualify() == Exit.OK
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(
        "PASS: no evidence against my-sampler 0.1 on a CPU emitting the law it declares, on 6 targets"
    )
    (receipt,) = Path("out").glob("*.json")
    assert verify(receipt, receipt.read_bytes()).ok
    assert any(line.startswith("not applicable ") for line in said)


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_bug_in_it_is_found(bug: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "my_sampler.py"
    text = path.read_text()
    assert text.count(RIGHT) == 1
    path.write_text(text.replace(RIGHT, bug))
    capsys.readouterr()
    assert qualify("--requests", "4000", "--target", "rows-of-12") == Exit.NEGATIVE
    said = capsys.readouterr().out
    assert said.startswith(
        "FAIL: my-sampler 0.1 on a CPU does not emit the law it declares, on 1 target (chosen from 10)"
    )
    assert "drawn tokens: off by about 0." in said.splitlines()[0]


def test_what_is_there_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "my_sampler.py").write_text("mine\n")
    for target in ("mine", "."):
        Path("my_sampler.py").write_text("mine\n")
        assert cli.run(["init", target]) == Exit.USAGE
        assert "exists already; give another folder: pp3 init NEW" in capsys.readouterr().err
    assert (folder / "my_sampler.py").read_text() == "mine\n"
    assert not Path("campaign.toml").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert cli.run(["init", str(tmp_path / "file" / "sub")]) == Exit.USAGE
    assert capsys.readouterr().err.endswith("; give a folder that can be written\n")


def test_its_campaign_names_every_key_and_every_default() -> None:
    """What is written is the default; what is commented out is a key all the same."""
    text = (STARTER / "campaign.toml").read_text()
    written = tomllib.loads(text)
    defaults = msgspec.to_builtins(TrialSpec())
    assert written.pop("sampler") == "my_sampler.py:MySampler"
    assert written == {key: defaults[key] for key in written}
    uncommented = "\n".join(line.removeprefix("# ") for line in text.splitlines() if "=" in line)
    everything = tomllib.loads(uncommented)
    assert set(everything) == set(defaults)
    assert msgspec.convert(everything, TrialSpec).targets == ["rows-of-12"]
