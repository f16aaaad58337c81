"""Where a run writes, and which counter it takes: one past every start that is known, spent at once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pp3.harness import campaign as campaigns
from pp3.harness import cli, qualify
from pp3.harness.backends import Backend
from pp3.harness.campaign import Campaign
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence import store
from pp3.harness.evidence.store import Store
from pp3.harness.run import Measured, Progress
from pp3.harness.seeds import Seed

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = 25
CLAIM = f"""
import sys
from pathlib import Path
from pp3.harness.evidence import store

home = Path(sys.argv[1])
store.find_checkout = lambda: None
sys.stdin.readline()
print(*[store.claim_counter(store.Store(receipts=home, reports=home, home=home), None)[0] for _ in range({CLAIMS})])
"""
BLOCKED = """
import sys
from pathlib import Path
from pp3.harness.evidence import store

home = Path(sys.argv[1])
store.find_checkout = lambda: None
store.claim_counter(store.Store(receipts=home, reports=home, home=home), None)
"""
SMALL = 'targets = ["disjoint"]\nrequests = 500\npaired = 20\ndepths = [4]\nbatch_sizes = [1]\n'


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout that the store takes for the one it runs from."""
    root = tmp_path / "checkout"
    (root / "receipts" / "evidence" / "qualify").mkdir(parents=True)
    monkeypatch.setattr(store, "find_checkout", lambda: root)
    return root


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, measure: Callable[[Campaign, Seed], Measured]) -> None:
    """`pp3 qualify` without its sample in the interpreter, which takes most of its time."""

    def run(campaign: Campaign, seed: Seed, device: Backend, progress: Progress) -> Measured:
        return measure(campaign, seed)

    monkeypatch.setattr(qualify, "run", run)


def spent(root: Path) -> list[str]:
    """The marks of the runs that were started."""
    started = root / "receipts" / "runs" / "started"
    return sorted(path.name for path in started.iterdir()) if started.is_dir() else []


def test_the_first_counter_is_one(checkout: Path) -> None:
    """And the second two, with nothing but the marks left."""
    assert store.claim_counter(store.open_store(None), None) == (1, "next")
    assert store.claim_counter(store.open_store(None), None) == (2, "next")
    assert spent(checkout) == ["000001", "000002"]


def write_ledger(root: Path, text: str) -> None:
    """The ledger of a checkout."""
    (root / "receipts" / "LEDGER").write_text(text)


def write_receipt(root: Path, folder: str, counter: int) -> None:
    """As much of a receipt as tells its counter."""
    path = root / "receipts" / folder / f"20260101T000000Z-{counter:064x}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"predicate":{{"seed":{{"chosen":"next","counter":{counter},"rule":""}}}}}}')


def write_mark(root: Path, counter: int) -> None:
    """The start mark of a run."""
    path = root / "receipts" / "runs" / "started" / f"{counter:06d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


KNOWN: dict[str, tuple[Callable[[Path], object], int]] = {
    "a ledger": (lambda root: write_ledger(root, "1 aa counter=3 PASS\n2 bb counter=17 FAIL\n3 cc counter=9\n"), 18),
    "a ledger whose other numbers are higher": (
        lambda root: write_ledger(root, "400 encounter=500 counter=3 x=600\n"),
        4,
    ),
    "an empty ledger": (lambda root: write_ledger(root, ""), 1),
    "committed evidence": (lambda root: write_receipt(root, "evidence/qualify", 41), 42),
    "committed evidence of another kind": (lambda root: write_receipt(root, "evidence/oracle", 41), 42),
    "a run that ended": (lambda root: write_receipt(root, "runs", 23), 24),
    "a run that was aborted": (lambda root: write_mark(root, 12), 13),
    "a counter of seven digits": (lambda root: write_mark(root, 1_234_567), 1_234_568),
    "a receipt that cannot be read": (
        lambda root: (root / "receipts" / "evidence" / "x.json").write_bytes(b"\xff"),
        1,
    ),
}


@pytest.mark.parametrize(("known", "following"), KNOWN.values(), ids=KNOWN)
def test_the_next_counter_is_one_past(known: Callable[[Path], object], following: int, checkout: Path) -> None:
    """Each place that knows of runs."""
    known(checkout)
    assert store.claim_counter(store.open_store(None), None) == (following, "next")


def test_the_next_counter_is_one_past_the_highest_of_all(checkout: Path) -> None:
    """The places together."""
    write_ledger(checkout, "counter=5\n")
    write_receipt(checkout, "evidence/qualify", 8)
    write_receipt(checkout, "runs", 7)
    write_mark(checkout, 6)
    assert store.claim_counter(store.open_store(None), None) == (9, "next")


def test_a_given_counter_is_said_to_be_given(checkout: Path) -> None:
    """It may repeat a run, and it is spent too."""
    assert store.claim_counter(store.open_store(None), 5) == (5, "given")
    assert store.claim_counter(store.open_store(None), 5) == (5, "given")
    assert store.claim_counter(store.open_store(None), 0) == (0, "given")
    assert store.claim_counter(store.open_store(None), None) == (6, "next")


@pytest.mark.parametrize("counter", [-1, 2**53, 2**64])
def test_a_counter_a_receipt_cannot_hold_is_refused(counter: int, checkout: Path) -> None:
    """Exit 2, and nothing is spent."""
    with pytest.raises(CampaignError, match=f"--counter {counter}: it must be from 0 to"):
        store.claim_counter(store.open_store(None), counter)
    assert spent(checkout) == []


def test_after_the_largest_counter_no_run_starts(checkout: Path) -> None:
    """Rather than run and find that its receipt cannot be written."""
    store.claim_counter(store.open_store(None), 2**53 - 1)
    with pytest.raises(CampaignError, match=str(2**53 - 1)):
        store.claim_counter(store.open_store(None), None)


def test_racing_runs_get_different_counters(tmp_path: Path) -> None:
    """Two processes that claim at once."""

    def racer() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", CLAIM, str(tmp_path / "home")],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with racer() as one, racer() as other:
        for process in (one, other):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        claimed = [process.communicate(timeout=60)[0].split() for process in (one, other)]
    assert [len(numbers) for numbers in claimed] == [CLAIMS, CLAIMS]
    assert sorted(int(number) for numbers in claimed for number in numbers) == [*range(1, 2 * CLAIMS + 1)]


def test_a_file_where_the_marks_should_be_is_an_error_not_a_hang(tmp_path: Path) -> None:
    """Counting on until a mark can be left would never end."""
    (tmp_path / "started").touch()
    done = subprocess.run(
        [sys.executable, "-P", "-c", BLOCKED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert done.returncode == 1
    assert "started" in done.stderr


def test_without_out_a_checkout_keeps_its_runs(checkout: Path) -> None:
    """Receipts and pages apart."""
    assert store.open_store(None) == Store(
        receipts=checkout / "receipts" / "runs",
        reports=checkout / "reports" / "runs",
        home=checkout / "receipts" / "runs",
    )


def test_without_a_checkout_runs_lie_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """./pp3-runs."""
    monkeypatch.setattr(store, "find_checkout", lambda: None)
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "pp3-runs"
    assert store.open_store(None) == Store(receipts=here, reports=here, home=here)


@pytest.mark.parametrize("made", [True, False], ids=["an empty folder", "a folder to be made"])
def test_out_takes_receipt_and_page_and_leaves_the_counters_at_home(made: bool, checkout: Path, tmp_path: Path) -> None:
    """So that a run elsewhere spends a counter too."""
    out = tmp_path / "deep" / "out"
    if made:
        out.mkdir(parents=True)
    assert store.open_store(out) == Store(receipts=out, reports=out, home=checkout / "receipts" / "runs")
    assert list(out.iterdir()) == []


def used(folder: Path) -> Path:
    """A folder with a file."""
    (folder / "used").mkdir()
    (folder / "used" / "old.json").touch()
    return folder / "used"


def below_a_file(folder: Path) -> Path:
    """A path that can never be made, for root either."""
    (folder / "file").touch()
    return folder / "file" / "out"


def a_file(folder: Path) -> Path:
    """A file in a folder's place."""
    (folder / "file").touch()
    return folder / "file"


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a folder already used": (used, "already holds 1 files; give a new or empty folder"),
    "a path below a file": (below_a_file, "Not a directory; give a folder that can be written"),
    "a file": (a_file, "File exists; give a folder that can be written"),
}


@pytest.mark.parametrize(("place", "reason"), REFUSED.values(), ids=REFUSED)
def test_out_is_refused(
    place: Callable[[Path], Path],
    reason: str,
    quick: None,
    checkout: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 2 with the path and the way out, in one line, before anything runs or is spent."""
    out = place(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert cli.run(["qualify", "--device", "cpu", "--out", str(out)]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"pp3: error: --out {out}{printed.err.partition(str(out))[2].rstrip()}"]
    assert reason in printed.err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_interrupted_run_has_spent_its_counter(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Choosing a lucky seed by aborting leaves its trace."""

    def interrupted(*arguments: object) -> Measured:
        raise KeyboardInterrupt

    monkeypatch.setattr(qualify, "run", interrupted)
    assert cli.run(["qualify", "--device", "cpu"]) == Exit.INTERRUPTED
    assert spent(checkout) == ["000001"]
    assert store.claim_counter(store.open_store(None), None) == (2, "next")
    assert list(checkout.rglob("*.json")) == []


def test_a_bad_campaign_spends_nothing(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It never started."""
    assert cli.run(["qualify", "--device", "cpu", "--requests", "0"]) == Exit.USAGE
    assert spent(checkout) == []


def mount(folder: Path) -> bool:
    """Mount a file system of 64 kB; whether this process may."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_full_disk_is_an_input_output_error(
    quick: None, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 74 and one line; no partial file, and whatever is whole stays."""
    disk, file = tmp_path / "disk", tmp_path / "small.toml"
    file.write_text(SMALL)
    if not mount(disk):
        pytest.skip("mounting a file system needs root")
    try:
        filler, out = disk / "filler", disk / "out"
        filler.write_bytes(bytes(60 * 1024))
        command = ["qualify", "--campaign", str(file), "--device", "cpu", "--out", str(out)]
        assert cli.run(command) == Exit.IO
        printed = capsys.readouterr()
        assert printed.out == ""
        assert len(printed.err.splitlines()) == 1
        assert "No space left on device; free some space and run again" in printed.err
        assert list(out.iterdir()) == []
        filler.unlink()  # room for the receipt; the page may still be too large
        code = cli.run(command)
        whole = [path for path in out.iterdir() if path.suffix == ".json"]
        assert len(whole) == 1
        assert cli.run(["verify", str(whole[0])]) == Exit.OK
        pages = [path for path in out.iterdir() if path not in whole]
        assert [path.suffix for path in pages] in ([], [".html"])
        assert pages == [] or code != Exit.IO
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_small_campaign_does_not_fit(tmp_path: Path, receipt_of: Callable[[Campaign, Path], Path]) -> None:
    """Or the test above would not fill the disk."""
    (tmp_path / "small.toml").write_text(SMALL)
    assert receipt_of(campaigns.load(tmp_path / "small.toml"), tmp_path).stat().st_size > 4 * 1024
