"""One real run of the command line, from start to receipt, and runs that are interrupted."""

import json
import multiprocessing
import os
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
from checkouts import command, environment, make_checkout

from pp3.harness import campaign as campaigns
from pp3.harness import canonical, cli
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.errors import Exit
from pp3.harness.run import Measured, run
from pp3.harness.seeds import Seed

ROOT = Path(__file__).resolve().parent.parent
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
