"""Which counter a run takes: one past every start that is known, spent at once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from checkouts import empty_checkout

from pp3.harness import cli, qualify
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence import store
from pp3.harness.run import Measured

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


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout that the store takes for the one it runs from."""
    return empty_checkout(tmp_path / "checkout", monkeypatch)


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
