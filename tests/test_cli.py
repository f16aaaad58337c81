"""The command line: every exit code of the table, data on stdout, and one real run from start to receipt."""

import errno
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click import Choice

import pp3
from pp3.harness import backends, canonical, cli, qualify
from pp3.harness import campaign as campaigns
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.errors import CampaignError, Exit, PP3Error, ReceiptError, VerificationError
from pp3.harness.evidence import store, table
from pp3.harness.run import Measured, run
from pp3.harness.seeds import Seed

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "tests" / "vectors"
COMMANDS = ("qualify", "conform", "verify", "report", "evidence")
SMALL = """
name = "small"
targets = ["disjoint"]
requests = 4_000
paired = 400
batch_sizes = [1, 2]
depths = [4]
"""
RUN = ["qualify", "--campaign", "small.toml", "--device", "cpu"]
PATIENCE = 60.0  # seconds that a step of another process may take; none does by far


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """One real run."""

    tree: Path
    stdout: str
    stderr: str
    code: int

    @property
    def result(self) -> dict[str, Any]:
        """The object on stdout."""
        return dict(json.loads(self.stdout))

    @property
    def predicate(self) -> dict[str, Any]:
        """What its receipt claims."""
        return dict(canonical.decode(Path(self.result["receipt"]).read_bytes())["predicate"])


def make_checkout(tree: Path) -> Path:
    """A checkout of its own, so that a run's counter and receipt stay in it."""
    for name in ("pp3", "harness", "kernels", "targets"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignore)
    shutil.copytree(VECTORS, tree / "tests" / "vectors")
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "small.toml").write_text(SMALL)
    return tree


def environment(tree: Path, interpret: bool = True) -> dict[str, str]:
    """For a process that runs the code of that tree and sees no GPU."""
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    chosen = {"CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    return kept | chosen | ({"TRITON_INTERPRET": "1"} if interpret else {})


def command(*arguments: str) -> list[str]:
    """The command line in a process of its own."""
    return [sys.executable, "-P", "-m", "pp3.harness.cli", *arguments]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One small campaign from start to end, kernels in the interpreter included."""
    tree = make_checkout(tmp_path_factory.mktemp("finished"))
    done = subprocess.run(
        command(*RUN, "--counter", "7", "--json"),
        cwd=tree,
        env=environment(tree),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Finished(tree=tree, stdout=done.stdout, stderr=done.stderr, code=done.returncode)


def test_a_run_passes_and_prints_one_object(finished: Finished) -> None:
    """`--json`: one line on stdout, with what scripts read."""
    assert finished.code == Exit.OK, finished.stderr
    assert len(finished.stdout.splitlines()) == 1
    result = finished.result
    assert {"verdict", "receipt", "report", "requests", "seconds", "sentence", "counter", "paired"} <= set(result)
    assert result["verdict"] == "PASS"
    assert (result["requests"], result["paired"], result["counter"]) == (4_000, 400, 7)
    assert 0 < result["seconds"] < PATIENCE
    assert result["report"] is None or Path(result["report"]).is_file()


def test_stderr_has_no_progress_where_there_is_no_terminal(finished: Finished) -> None:
    """A log of a run in CI is clean."""
    assert [
        junk for junk in ("\x1b", "\r", "\u2501", "requests", "kernels in", "0:00") if junk in finished.stderr
    ] == []


def test_a_run_leaves_its_receipt_page_and_mark_alone(finished: Finished) -> None:
    """In the runs folders of its checkout, and no temporary file."""
    receipt = Path(finished.result["receipt"])
    assert receipt.parent == finished.tree / "receipts" / "runs"
    page = finished.result["report"]
    left = {
        path for folder in ("receipts", "reports") for path in (finished.tree / folder).rglob("*") if path.is_file()
    }
    assert left == {receipt, receipt.parent / "started" / "000007", *([Path(page)] if page else [])}


def test_a_run_shows_its_kernels(finished: Finished) -> None:
    """Known answers and bits in the interpreter, every one as expected, and on what they ran."""
    kernels = finished.predicate["kernels"]
    assert {row["file"]: row["total"] for row in kernels["conform"]} == {"propose.json": 78, "verify.json": 90}
    assert all(row["passed"] == row["total"] for row in kernels["conform"])
    assert sum(row["rows"] for row in kernels["bits"]) >= 512
    assert not any(row["mismatches"] for row in kernels["bits"])
    assert kernels["identity"]["backend"] == "interpreter"
    assert {"torch", "triton", "numpy", "python"} <= set(kernels["identity"])
    assert "wiring, not a GPU" in finished.predicate["sentence"]


def test_a_receipt_of_a_run_names_no_place(finished: Finished) -> None:
    """Not even where its checkout lies."""
    text = Path(finished.result["receipt"]).read_text("utf-8")
    places = (str(finished.tree), str(ROOT), str(Path.home()), "/tmp/", "/root/", "/home/", sys.executable)
    assert [place for place in places if place != "/" and place in text] == []


def test_the_same_counter_gives_the_same_counts(
    finished: Finished, measure: Callable[[Campaign, Seed], Measured]
) -> None:
    """In another process, at another time."""
    campaign = campaigns.load(finished.tree / "small.toml")
    again = measure(campaign, Seed.of(campaigns.plan_sha256(campaign), 7))
    counts = {(cell["id"], cell["batch"]): cell["counts"] for cell in finished.predicate["cells"]}
    assert again.counts == counts
    assert again.pairs == finished.predicate["paired"]


def test_the_receipt_of_a_run_verifies(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    """Against the tree it ran from, too."""
    assert cli.run(["verify", finished.result["receipt"], "--source", str(finished.tree)]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[-1].endswith(" current=yes")


def test_a_used_folder_is_not_written_to(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    """The runs of a checkout are no folder for --out."""
    used = Path(finished.result["receipt"]).parent
    before = sorted(used.rglob("*"))
    assert cli.run(["qualify", "--device", "cpu", "--out", str(used)]) == Exit.USAGE
    assert f"--out {used} already holds" in capsys.readouterr().err
    assert sorted(used.rglob("*")) == before


def processes_of(group: int) -> list[int]:
    """Live processes of a process group (Linux)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def wait_for(what: Callable[[], bool]) -> bool:
    """Poll until it is so, within a bound."""
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while time.monotonic() < deadline:
        if what():
            return True
        pause.wait(0.01)
    return False


def interpreting(group: int) -> bool:
    """Whether both workers of a run have triton in memory."""
    loaded = 0
    for process in processes_of(group):
        try:
            loaded += process != group and "libtriton" in Path(f"/proc/{process}/maps").read_text()
        except OSError:
            continue
    return loaded == 2


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in a process group of its own, which never outlives its test."""
    tree = make_checkout(tmp_path / "tree")
    process = subprocess.Popen(
        command(*RUN, "--out", str(tmp_path / "out")),
        cwd=tree,
        env=environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            for survivor in processes_of(process.pid):
                os.kill(survivor, signal.SIGKILL)


@pytest.mark.parametrize("moment", ["at its start mark", "while the interpreter runs"])
def test_ctrl_c_stops_cleanly(moment: str, running: subprocess.Popen[str], tmp_path: Path) -> None:
    """Exit 130 at once: no receipt, no half-written file, no process left; the counter stays spent."""
    mark = tmp_path / "tree" / "receipts" / "runs" / "started" / "000001"
    assert wait_for(lambda: mark.exists() or running.poll() is not None)
    if moment == "while the interpreter runs":
        assert wait_for(lambda: interpreting(running.pid) or running.poll() is not None)
    assert running.poll() is None
    os.killpg(running.pid, signal.SIGINT)
    stdout, stderr = running.communicate(timeout=PATIENCE)
    assert (running.returncode, stdout) == (Exit.INTERRUPTED, "")
    assert stderr.splitlines()[-1] == "pp3: interrupted; nothing half-written was left"
    assert list((tmp_path / "out").iterdir()) == []
    written = [path.name for path in (tmp_path / "tree" / "receipts").rglob("*") if path.is_file()]
    assert written == ["000001"]
    assert wait_for(lambda: processes_of(running.pid) == [])


def test_whatever_is_raised_while_the_workers_start_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt between two submissions neither waits for the first ones nor leaves them."""
    submitted: list[Future[Any]] = []
    submit = ProcessPoolExecutor.submit

    def interrupted(pool: ProcessPoolExecutor, *arguments: Any) -> Future[Any]:
        if len(submitted) == 2:
            raise KeyboardInterrupt
        submitted.append(submit(pool, *arguments))
        return submitted[-1]

    monkeypatch.setattr(ProcessPoolExecutor, "submit", interrupted)
    campaign = campaigns.of_document({"targets": ["disjoint"], "requests": 100, "paired": 10}, "test")
    with pytest.raises(KeyboardInterrupt):
        run(campaign, Seed.of(campaigns.plan_sha256(campaign), 7), Backend.REFERENCE, lambda stage, done, total: None)
    assert multiprocessing.active_children() == []
    assert [future for future in submitted if not future.cancelled() and future.exception() is None] == []


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
    "an unknown command": (["qualfy"], "qualfy"),
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


NO_GPU = {
    "a GPU is asked for": ["qualify", "--device", "cuda"],
    "a GPU is asked for the bridge": ["oracle", "--device", "cuda"],
    "a GPU is required": ["qualify", "--require-gpu"],
    "the known answers are to be compiled": ["conform", "--backend", "cuda", str(VECTORS / "verify.json")],
}


@pytest.mark.parametrize("arguments", NO_GPU.values(), ids=NO_GPU)
def test_without_a_gpu_it_is_exit_69(arguments: list[str], tmp_path: Path) -> None:
    """One line, and no counter is spent."""
    tree = make_checkout(tmp_path)
    done = subprocess.run(
        command(*arguments),
        cwd=tree,
        env=environment(tree, interpret=False),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (Exit.UNAVAILABLE, "")
    assert done.stderr.splitlines() == [f"pp3: error: {backends.NO_GPU}"]
    assert not (tree / "receipts").exists()


def test_without_a_gpu_a_command_is_told_an_option_that_it_has() -> None:
    """--device cpu wherever a GPU can be asked for, but for conform."""
    choices = {
        (name, option): one.type.choices
        for name, command in cli.commands.commands.items()
        for one in command.params
        if isinstance(one.type, Choice)
        for option in one.opts
    }
    asking = {name for (name, _), values in choices.items() if "cuda" in values}
    assert {"qualify", "oracle", "exhaustive", "conform"} <= asking
    advice = re.fullmatch(r"no CUDA GPU is visible: use (\S+) (\S+), or with pp3 conform (\S+) (\S+)", backends.NO_GPU)
    assert advice
    option, value, other_option, other_value = advice.groups()
    assert [name for name in asking - {"conform"} if value not in choices.get((name, option), ())] == []
    assert other_value in choices["conform", other_option]


@pytest.mark.parametrize(
    ("device", "require_gpu", "visible", "chosen"),
    [
        ("auto", False, False, Backend.REFERENCE),
        ("auto", False, True, Backend.CUDA),
        ("cpu", False, True, Backend.REFERENCE),
        ("auto", True, True, Backend.CUDA),
        ("cuda", False, True, Backend.CUDA),
    ],
    ids=["auto without a GPU", "auto with one", "cpu beside one", "a required one", "an asked one"],
)
def test_the_device_that_is_chosen(
    device: str, require_gpu: bool, visible: bool, chosen: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """auto takes a GPU if there is one."""
    monkeypatch.setattr(backends, "cuda_available", lambda: visible)
    monkeypatch.setattr(backends, "start", lambda backend: None)
    assert qualify.choose_device(device, require_gpu) is chosen


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


TABLE = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
UNFIT: dict[str, tuple[bytes | None, str]] = {
    "none": (None, "No such file or directory; give the README"),
    "no UTF-8": (b"\xff", "not UTF-8 at byte 0; give the README"),
    "no marks": (b"text", "needs the marks"),
    "a mark twice": (TABLE.encode() * 2, "once each"),
    "marks the other way round": (f"{table.END}{table.BEGIN}".encode(), "in this order"),
}


@pytest.mark.parametrize(("content", "said"), UNFIT.values(), ids=UNFIT)
def test_a_file_that_holds_no_evidence_table_is_exit_2(
    content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and stays as it was."""
    path = tmp_path / "README.md"
    if content is not None:
        path.write_bytes(content)
    assert cli.run(["evidence", "--write", str(path)]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pp3: error: {path}: ")
    assert said in printed.err
    assert (path.read_bytes() if path.exists() else None) == content


def test_the_evidence_table_is_put_between_its_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By way of a link too, with the mode kept and no other file left."""
    path, link = tmp_path / "README.md", tmp_path / "link.md"
    path.write_text(TABLE)
    path.chmod(0o640)
    link.symlink_to(path)
    assert cli.run(["evidence", "--write", str(link)]) == Exit.OK
    assert path.read_text() == f"before\n{table.BEGIN}\n{table.render(table.rows())}\n{table.END}\nafter\n"
    assert (path.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)
    assert sorted(tmp_path.iterdir()) == [path, link]


def no_access(monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of another user, as root cannot have one."""
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    return "Permission denied"


def full(monkeypatch: pytest.MonkeyPatch) -> str:
    """A disk that is full at the end."""

    def replace(*paths: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", replace)
    return "No space left on device"


@pytest.mark.parametrize("forbid", [no_access, full])
def test_an_evidence_table_that_cannot_be_written_is_exit_74(
    forbid: Callable[[pytest.MonkeyPatch], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The file asked for is named, and whole."""
    path = tmp_path / "README.md"
    path.write_text(TABLE)
    said = forbid(monkeypatch)
    assert cli.run(["evidence", "--write", str(path)]) == Exit.IO
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"pp3: error: {path}: {said}; it is as it was\n")
    assert path.read_text() == TABLE
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_checkout_there_is_no_evidence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2: an installed pp3 is no bug."""
    monkeypatch.setattr(table, "find_checkout", lambda: None)
    assert cli.run(["evidence"]) == Exit.USAGE
    assert "run it from one" in capsys.readouterr().err


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


def test_conform_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """The files of the semantics, on the reference."""
    files = [str(VECTORS / name) for name in ("propose.json", "verify.json")]
    assert cli.run(["conform", *files]) == Exit.OK
    assert capsys.readouterr().out.splitlines() == [
        "propose.json: 78 of 78 passed on reference",
        "verify.json: 90 of 90 passed on reference",
    ]


def test_conform_holds_the_wire_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A file of frames beside files of a backend, whatever the backend."""
    assert cli.run(["conform", str(VECTORS / "wire.json"), str(VECTORS / "verify.json")]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[0] == "wire.json: 117 of 117 passed on NumPy"


def test_conform_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With on what it passed."""
    assert cli.run(["conform", str(VECTORS / "verify.json"), "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["total"]) == (90, 90)
    assert found["identity"]["backend"] == "reference"


ALTERED: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "a token": ("propose.json", "token", lambda old: old + 1),
    "a status": ("propose.json", "status", lambda old: "failed"),
    "an id": ("propose.json", "ids", lambda old: [old[1], old[0], *old[2:]]),
    "a ticket": ("propose.json", "tickets", lambda old: [old[0] - 1, *old[1:]]),
    "a length": ("verify.json", "num_sampled", lambda old: old + 1),
    "an emitted token": ("verify.json", "tokens", lambda old: [*old[:-1], old[-1] + 1]),
}


@pytest.mark.parametrize(("file", "field", "alter"), ALTERED.values(), ids=ALTERED)
def test_an_altered_expectation_is_named(
    file: str, field: str, alter: Callable[[Any], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 with case, field, what was expected and what came."""
    cases = json.loads((VECTORS / file).read_bytes())
    case = next(case for case in cases if case["expect"]["status"] == "ok" and case["sampled"])
    got = case["expect"][field]
    case["expect"][field] = alter(got)
    (tmp_path / file).write_text(json.dumps(cases))
    assert cli.run(["conform", str(tmp_path / file)]) == Exit.NEGATIVE
    passed, difference = capsys.readouterr().out.splitlines()
    assert passed == f"{file}: {len(cases) - 1} of {len(cases)} passed on reference"
    assert difference == (
        f"  first difference: case {case['name']}, {field}: expected {case['expect'][field]}, got {got}"
    )


UNUSABLE = {
    "a wire file without its parts": (b'{"valid": []}', "missing required field"),
    "no JSON": (b"requests = 5", "malformed"),
    "truncated JSON": (b"[{", "truncated"),
    "an empty file": (b"", "truncated"),
    "an object": (b'{"cases":[]}', "Expected `array`"),
    "a case without its fields": (b'[{"name":"x"}]', "missing required field"),
    "a case of another type": (b"[5]", "Expected `object`"),
}


@pytest.mark.parametrize(("content", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_vectors_are_exit_2(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the file and the reason."""
    path = tmp_path / "vectors.json"
    path.write_bytes(content)
    assert cli.run(["conform", str(path)]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith(f"pp3: error: {path}: ")
    assert said in printed.err


def odd_case(file: str, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A file of one case that was changed."""
    case = min(json.loads((VECTORS / file).read_bytes()), key=lambda case: len(json.dumps(case)))
    change(case)
    return json.dumps([case]).encode()


ODD: dict[str, bytes] = {
    "logits of another vocabulary": odd_case("propose.json", lambda case: case.update(vocab=64)),
    "logits that are no bytes": odd_case("propose.json", lambda case: case.update(logits="zz")),
    "a session of one byte": odd_case("propose.json", lambda case: case.update(session="00")),
    "a seed that is no number": odd_case("propose.json", lambda case: case.update(seed="x")),
    "a round beyond 64 bits": odd_case("propose.json", lambda case: case.update(round="1" * 17)),
    "an unknown type of logits": odd_case("propose.json", lambda case: case.update(dtype="fp8")),
    "a draft too few": odd_case("verify.json", lambda case: case["drafts"].pop()),
    "a row of ids too few": odd_case("verify.json", lambda case: case["ids"].pop()),
    "a row of tickets too few": odd_case("verify.json", lambda case: case["tickets"].pop()),
    "no tickets": odd_case("verify.json", lambda case: case.update(tickets=[])),
    "a probability too few": odd_case("verify.json", lambda case: case.update(target_fp32=case["target_fp32"][8:])),
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_an_odd_case_is_exit_2(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Well-formed JSON with a value that fits nothing is bad input, not a bug of ours."""
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    assert cli.run(["conform", str(path)]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pp3: error: {path}: ")


def test_a_bad_file_is_refused_before_a_good_one_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed of the good one."""
    (tmp_path / "bad.json").write_text("[")
    assert cli.run(["conform", str(VECTORS / "verify.json"), str(tmp_path / "bad.json")]) == Exit.USAGE
    assert capsys.readouterr().out == ""


def test_no_cases_is_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing ran, which is not a pass."""
    (tmp_path / "none.json").write_text("[]")
    assert cli.run(["conform", str(tmp_path / "none.json")]) == Exit.NOTHING_RAN
    assert "0 of 0 passed" in capsys.readouterr().out


def test_a_truncated_receipt_is_exit_1(real_receipt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A negative result, said in one sentence."""
    path = tmp_path / real_receipt.name
    path.write_bytes(real_receipt.read_bytes()[:-100])
    assert cli.run(["verify", str(path)]) == Exit.NEGATIVE
    assert capsys.readouterr().out.splitlines()[-1].startswith("NOT VERIFIED at bytes: ")
