"""The checkout: its state in git, its ledger, and the image files beside it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pp3.harness.doctor.line import Line, fine, note, problem
from pp3.harness.errors import PP3Error
from pp3.harness.evidence import ledger
from pp3.harness.image import cache
from pp3.harness.image.pins import DEFAULT
from pp3.harness.paths import find_checkout

SECONDS = 20.0


def lines() -> Iterator[Line]:
    """Image files; of a checkout its state and its ledger, and the wrapper."""
    yield image()
    root = find_checkout()
    if root is None:
        yield fine("checkout", "none: pp3 is installed")
        return
    if not (root / "pp3_locked.sh").is_file():
        yield note("pp3_locked.sh", "missing in the checkout", "git checkout -- pp3_locked.sh")
    yield state(root)
    yield records(root)


def image() -> Line:
    """Which versions of vLLM's files can be loaded."""
    name, folder = "image files", cache.default_folder()
    fix = f"make image VERSION={DEFAULT}"
    if folder is None:
        return note(name, f"no folder for them: ${cache.VARIABLE} is not set", f"export {cache.VARIABLE}=FOLDER; {fix}")
    where = f"${cache.VARIABLE}" if folder.name != cache.FOLDER else f"{cache.FOLDER} of the checkout"
    found = sorted(path.name for path in folder.glob("[0-9]*") if path.is_dir()) if folder.is_dir() else []
    if not found:
        return note(name, f"none in {where}: vLLM's samplers cannot be tried", fix)
    return fine(name, f"vLLM {', '.join(found)} in {where}")


def state(root: Path) -> Line:
    """The commit, and whether anything differs from it."""
    name = "commit"
    if shutil.which("git") is None or not (root / ".git").exists():
        return note(name, "the checkout is a copy without history", "git clone URL")
    commit, changed = (_git(root, *words) for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain")))
    if commit is None or changed is None:
        return note(name, "git says nothing of the checkout", "git status")
    lines = changed.splitlines()
    if lines:
        return note(
            name, f"at {commit}, {len(lines):,} files changed or new: receipts bind what lies here", "git status"
        )
    return fine(name, f"at {commit}, nothing changed")


def _git(root: Path, *words: str) -> str | None:
    """What git says; None if it does not. It changes nothing, the index not either."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def records(root: Path) -> Line:
    """The ledger: whether it can be read, and whether it has every committed receipt."""
    name, path = "ledger", root / "receipts" / ledger.FILE
    try:
        known = ledger.read(path)
    except PP3Error as error:
        return problem(name, str(error).replace(str(root), "."), f"git checkout -- receipts/{ledger.FILE}")
    if known.problems:
        return problem(name, known.problems[0], f"git checkout -- receipts/{ledger.FILE}")
    there = {file.stem.rpartition("-")[2] for file in (root / "receipts" / "evidence").glob("*/*.json")}
    lacking = sorted(there - set(known.records))
    if lacking:
        said = f"{len(lacking):,} of {len(there):,} committed receipts have no line, {lacking[0][:12]} first"
        return note(name, said, "pp3 ledger add RECEIPT")
    return fine(name, f"{len(known.records):,} receipts recorded; pp3 ledger check holds their bytes")
