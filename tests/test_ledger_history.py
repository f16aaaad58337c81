"""The ledger and receipts in git: nothing committed was ever changed, and a change that was is shown."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from booked import add, digest, receipts_in, shelved

from pp3.harness.campaign import Campaign
from pp3.harness.errors import Exit

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = "receipts/evidence"


@pytest.fixture(scope="module")
def made(receipt_of: Callable[[Campaign, Path], Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Small real receipts, each of a plan of its own."""
    return receipts_in(tmp_path_factory.mktemp("made"), receipt_of)


@pytest.fixture
def shelf(made: list[Path], tmp_path: Path) -> list[Path]:
    """The receipts in the evidence folder of an empty checkout."""
    return shelved(made, tmp_path)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """The ledger of that checkout."""
    return tmp_path / "receipts" / "LEDGER"


def git(root: Path, *arguments: str) -> str:
    """What git says."""
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def changed_receipts(root: Path) -> list[str]:
    """Receipts of any commit before that another commit, or the tree, has with other bytes or no longer has."""
    seen: dict[str, set[str]] = {}
    for line in git(
        root, "log", "--no-renames", "-m", "--raw", "--no-abbrev", "--format=", "--", EVIDENCE
    ).splitlines():
        meta, _, name = line.partition("\t")
        before, after = meta.split()[2:4]
        if name.endswith(".json"):
            seen.setdefault(name, set()).update({before, after} - {"0" * len(after)})
    for name, blobs in seen.items():
        blobs.add(git(root, "hash-object", name).strip() if (root / name).is_file() else "gone")
    return sorted(name for name, blobs in seen.items() if len(blobs) > 1)


def rewritten_lines(root: Path) -> list[str]:
    """Commits, and the tree, whose ledger does not begin with that of the commit before, along the first parents."""
    commits = git(root, "log", "--first-parent", "--reverse", "--format=%H", "--", "receipts/LEDGER").split()
    texts = [git(root, "show", f"{commit}:receipts/LEDGER") for commit in commits]
    path = root / "receipts" / "LEDGER"
    texts.append(path.read_text("utf-8") if path.is_file() else "")
    after = [*commits[1:], "the tree"]
    pairs = zip(texts, texts[1:], after, strict=False)
    return [name for before, text, name in pairs if not text.startswith(before)]


@pytest.mark.parametrize("found", [changed_receipts, rewritten_lines])
def test_nothing_committed_was_ever_changed(found: Callable[[Path], list[str]]) -> None:
    """No receipt, and no line of the ledger, in the whole history."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git here: a plain copy has no history to hold it against")
    assert found(ROOT) == []


@pytest.fixture
def history(shelf: list[Path], book: Path, tmp_path: Path) -> Path:
    """A repository with two commits of receipts and ledger."""
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.email", "nobody@example.invalid")
    git(tmp_path, "config", "user.name", "nobody")
    assert add(book, shelf[0]) == Exit.OK
    commit(tmp_path)
    assert add(book, *shelf[1:]) == Exit.OK
    commit(tmp_path)
    assert changed_receipts(tmp_path) == rewritten_lines(tmp_path) == []
    return tmp_path


def commit(root: Path) -> None:
    """Everything."""
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x", "--no-gpg-sign")


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "in the tree"])
def test_history_shows_a_changed_receipt(committed: bool, history: Path, shelf: list[Path]) -> None:
    """Also one that was put back, and one that went."""
    before = shelf[0].read_bytes()
    os.chmod(shelf[0], 0o644)
    shelf[0].write_bytes(before + b" ")
    if committed:
        commit(history)
        shelf[0].write_bytes(before)
        commit(history)
    shelf[1].unlink()
    if committed:
        commit(history)
    names = [path.relative_to(history).as_posix() for path in shelf[:2]]
    assert changed_receipts(history) == sorted(names)


@pytest.mark.parametrize("way", ["changed", "removed", "before"])
def test_history_shows_a_changed_ledger(way: str, history: Path, book: Path, shelf: list[Path]) -> None:
    """A line changed, the last removed, one put before; then committed."""
    text = book.read_text("utf-8")
    changes = {
        "changed": text.replace("INCONCLUSIVE", "PASS", 1),
        "removed": "".join(text.splitlines(keepends=True)[:-1]),
        "before": "a note\n" + text,
    }
    book.write_text(changes[way], "utf-8")
    assert rewritten_lines(history) == ["the tree"]
    commit(history)
    assert rewritten_lines(history) == [git(history, "rev-parse", "HEAD").strip()]


def test_history_allows_appending(history: Path, book: Path, shelf: list[Path]) -> None:
    """A superseding is a line more."""
    assert add(book, shelf[1], "--supersedes", digest(shelf[0]), "--reason", "x") == Exit.OK
    assert rewritten_lines(history) == changed_receipts(history) == []
