"""The command line: help, misuse, every exit code of the table, and pages that cannot be written."""

import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from checkouts import SMALL

import pp3
from pp3.harness import cli, qualify
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.errors import CampaignError, Exit, PP3Error, ReceiptError, VerificationError
from pp3.harness.evidence import store
from pp3.harness.run import Measured
from pp3.harness.seeds import Seed

COMMANDS = ("qualify", "conform", "verify", "report", "evidence")
RUN = ["qualify", "--campaign", "small.toml", "--device", "cpu"]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, on stdout."""
    assert cli.run(["--help"]) == Exit.OK
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if not re.search(rf"^  {name} ", text, re.MULTILINE)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0; every option says what it does."""
    assert cli.run([name, "--help"]) == Exit.OK
    assert f"Usage: pp3 {name}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the package."""
    assert cli.run(["--version"]) == Exit.OK
    assert pp3.__version__ in capsys.readouterr().out


MISUSED: dict[str, tuple[list[str], str]] = {
    "an unknown command": (["qualfy"], "'qualfy' is no command; did you mean qualify?"),
    "a command like none": (["trace"], "'trace' is no command; pp3 --help lists them"),
    "a command of a group": (["ledger", "drop"], "'drop' is no command; pp3 ledger --help lists them"),
    "an unknown option": (["qualify", "--reqests", "5"], "--reqests"),
    "a number that is none": (["qualify", "--requests", "many"], "many"),
    "an unknown device": (["qualify", "--device", "tpu"], "tpu"),
    "requests 0": (["qualify", "--requests", "0"], "requests = 0"),
    "requests negative": (["qualify", "--requests", "-5"], "requests = -5"),
    "a missing campaign": (["qualify", "--campaign", "nowhere.toml"], "nowhere.toml: No such file"),
    "a CPU and a GPU at once": (["qualify", "--device", "cpu", "--require-gpu"], "drop one"),
    "no file to conform to": (["conform"], "FILES"),
    "an unknown backend": (["conform", "--backend", "tpu", "x.json"], "tpu"),
    "missing vectors": (["conform", "nowhere.json"], "nowhere.json: No such file"),
    "no receipt": (["verify"], "RECEIPT"),
    "a missing receipt": (["verify", "nowhere.json"], "nowhere.json: No such file"),
    "a folder for a receipt": (["verify", "."], "Is a directory"),
}


@pytest.mark.parametrize(("arguments", "named"), MISUSED.values(), ids=MISUSED)
def test_misuse_is_exit_2(
    arguments: list[str],
    named: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The value is named on stderr, and nothing is on stdout."""
    monkeypatch.chdir(tmp_path)
    assert cli.run(arguments) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert named in printed.err
    assert list(tmp_path.iterdir()) == []


def breach(measured: Measured) -> None:
    """The sampler broke its contract once."""
    measured.breaches["failed"] += 1


def mismatch(measured: Measured) -> None:
    """A temperature-0 request differed."""
    measured.pairs[0]["mismatches"] += 1


def no_kernels(measured: Measured) -> None:
    """torch is not installed, say."""
    measured.kernels = {"bits": [], "conform": [], "identity": {}, "missing": "torch is not installed"}


JUDGED: dict[str, tuple[Callable[[Measured], object], str, Exit]] = {
    "nothing against it": (lambda measured: None, "PASS", Exit.OK),
    "a mismatch": (mismatch, "FAIL", Exit.NEGATIVE),
    "a breach": (breach, "INVALID", Exit.NEGATIVE),
    "no kernels": (no_kernels, "INCONCLUSIVE", Exit.INCONCLUSIVE),
}


@pytest.mark.parametrize(("change", "verdict", "code"), JUDGED.values(), ids=JUDGED)
def test_every_verdict_has_its_exit_code(
    change: Callable[[Measured], object],
    verdict: str,
    code: Exit,
    measure: Callable[[Campaign, Seed], Measured],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The sentence comes first and the way to verify it with it; an authentic FAIL verifies too."""

    def quick(campaign: Campaign, seed: Seed, device: Backend, progress: object) -> Measured:
        measured = measure(campaign, seed)
        change(measured)
        return measured

    monkeypatch.setattr(qualify, "run", quick)
    monkeypatch.setattr(store, "find_checkout", lambda: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    assert cli.run(RUN) == code
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    written = [str(path.relative_to(tmp_path)) for path in (tmp_path / "pp3-runs").glob("*.json")]
    told = [line.rpartition("pp3 verify ")[2] for line in lines if "pp3 verify " in line]
    assert lines[0].startswith(f"{verdict}: ")
    assert told == written
    assert printed.err == ""
    assert cli.run(["verify", *told]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"VERIFIED verdict={verdict} ")


RAISED: dict[str, tuple[BaseException, Exit, str]] = {
    "bad input": (CampaignError("alpha = 7"), Exit.USAGE, "alpha = 7"),
    "a missing GPU": (PP3Error("no GPU", Exit.UNAVAILABLE), Exit.UNAVAILABLE, "no GPU"),
    "a malformed receipt": (ReceiptError("truncated"), Exit.NEGATIVE, "truncated"),
    "a missing receipt": (ReceiptError("no such file", Exit.USAGE), Exit.USAGE, "no such file"),
    "an untrue receipt": (VerificationError("laws: differ"), Exit.NEGATIVE, "laws: differ"),
    "a full disk": (OSError(errno.ENOSPC, "No space left on device", "out/x"), Exit.IO, "out/x: No space left"),
    "a disk that fails": (OSError(errno.EIO, "Input/output error"), Exit.IO, "Input/output error"),
    "a reader that left": (BrokenPipeError(), Exit.IO, ""),
    "Ctrl-C": (KeyboardInterrupt(), Exit.INTERRUPTED, "interrupted"),
    "a bug": (RuntimeError("surprise"), Exit.INTERNAL, "surprise"),
}


@pytest.mark.parametrize(("error", "code", "said"), RAISED.values(), ids=RAISED)
def test_every_end_has_its_exit_code(
    error: BaseException, code: Exit, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One table for all commands; only a bug shows a traceback."""

    def ends(*given: object) -> int:
        raise error

    monkeypatch.setattr(qualify, "run_command", ends)
    assert cli.run(["qualify"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert ("Traceback" in printed.err) == (code == Exit.INTERNAL)


def unwritable(folder: Path) -> tuple[Path, Exit, str]:
    """A folder where root cannot write either (Linux)."""
    return Path("/proc/page.html"), Exit.IO, "No such file or directory"


def below_a_file(folder: Path) -> tuple[Path, Exit, str]:
    """A path that can never be made."""
    (folder / "file").touch()
    return folder / "file" / "page.html", Exit.USAGE, f"{folder / 'file'} is no folder; give another file with --out"


def taken(folder: Path) -> tuple[Path, Exit, str]:
    """A page that is there."""
    (folder / "page.html").touch()
    return folder / "page.html", Exit.USAGE, "exists already; give another file with --out"


@pytest.mark.parametrize("place", [unwritable, below_a_file, taken])
def test_a_page_that_cannot_be_written_names_the_file_asked_for(
    place: Callable[[Path], tuple[Path, Exit, str]],
    real_receipt: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not the one it is written under first."""
    path, code, said = place(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert cli.run(["report", str(real_receipt), "--out", str(path)]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pp3: error: {path}")
    assert said in printed.err
    assert ".writing-" not in printed.err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("counter", ["-1", str(2**53), "9" * 400], ids=["-1", "2^53", "400 digits"])
def test_a_bad_counter_makes_no_folder(counter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused before anything is made."""
    out = tmp_path / "out"
    assert cli.run(["qualify", "--device", "cpu", "--counter", counter, "--out", str(out)]) == Exit.USAGE
    printed = capsys.readouterr().err
    assert printed.startswith(f"pp3: error: --counter {counter[:16]}")
    assert len(printed) < 120
    assert not out.exists()


def test_main_exits_with_the_code() -> None:
    """The entry point of the installed command."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", "nowhere.json"])
    assert ended.value.code == Exit.USAGE


def test_a_truncated_receipt_is_exit_1(real_receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A negative result, said in one sentence."""
    path = tmp_path / real_receipt.name
    path.write_bytes(real_receipt.read_bytes()[:-100])
    assert cli.run(["verify", str(path)]) == Exit.NEGATIVE
    assert capsys.readouterr().out.splitlines()[-1].startswith("NOT VERIFIED at bytes: ")
