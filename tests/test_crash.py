"""A write that is killed, has no room, may not write or has rivals leaves the whole file or none, and is named."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.evidence import receipt, store

ROOT = Path(__file__).resolve().parents[1]
CONTENT = bytes(range(256)) * 300  # 76,800 bytes: more than a page, so that a part of it can be written
NAME = "20260101T000000Z-name.json"
RIVALS = 64
NOBODY = 65534
CALLS = ("open", "write", "fsync", "close", "chmod", "link", "unlink")  # every system call of a write
KILLED = f"""
import os, signal, sys
from pathlib import Path
from pp3.harness.evidence.receipt import write_once

at, when = int(sys.argv[2]), sys.argv[3]
content = bytes(range(256)) * 300
count = 0
trace = []


def wrapped(name, real):
    def call(*arguments, **named):
        global count
        count += 1
        trace.append(name)
        if count == at:
            if when == "during" and name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if when == "after":
                real(*arguments, **named)
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    return call


for name in {CALLS!r}:
    setattr(os, name, wrapped(name, getattr(os, name)))
write_once(Path(sys.argv[1]) / {NAME!r}, content)
print(*trace)
"""
FULL = f"""
import resource, sys
from pathlib import Path
from pp3.harness.evidence.receipt import write_once

resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_once(Path(sys.argv[1]) / {NAME!r}, bytes(range(256)) * 300)
except OSError as error:
    print(error.errno)
"""
READ_ONLY = f"""
import os, sys
from pathlib import Path
from pp3.harness.evidence.receipt import write_once

os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
try:
    write_once(Path({NAME!r}), b"content")
except OSError as error:
    print(error.errno)
"""
RACE = f"""
import os, sys
from pathlib import Path
from pp3.harness.evidence.receipt import write_once

path = Path(sys.argv[1]) / {NAME!r}
ready, start = os.pipe(), os.pipe()
children = []
for number in range({RIVALS}):
    child = os.fork()
    if not child:
        os.close(start[1])
        os.write(ready[1], b".")
        os.read(start[0], 1)  # until the parent closes it
        try:
            write_once(path, bytes([number]) * 70_000)
        except FileExistsError:
            os._exit(17)
        os._exit(0)
    children.append(child)
seen = b""
while len(seen) < {RIVALS}:
    seen += os.read(ready[0], {RIVALS})
os.close(start[1])
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(codes.count(0), codes.count(17), codes.index(0))
"""


def python(script: str, *arguments: str | int | Path) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, from this checkout."""
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def left_in(folder: Path) -> list[str]:
    """Names of what is in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def steps_of_a_write() -> list[str]:
    """The system calls of a write, in order."""
    return ["open", "write", "fsync", "close", "chmod", "link", "unlink", "open", "fsync", "close"]


def test_the_steps_are_those_of_the_code(tmp_path: Path) -> None:
    """Or the kills below would miss one."""
    done = python(KILLED, tmp_path, 0, "never")
    assert (done.returncode, done.stdout.split()) == (0, steps_of_a_write())


@pytest.mark.parametrize(
    ("at", "when"),
    [(at, when) for at in range(1, len(steps_of_a_write()) + 1) for when in ("before", "after")] + [(2, "during")],
    ids=lambda value: f"{value}-{steps_of_a_write()[value - 1]}" if isinstance(value, int) else value,
)
def test_killed_at_any_step(at: int, when: str, tmp_path: Path) -> None:
    """The whole file or none; what else is left is named by the next run, and still there after it."""
    done = python(KILLED, tmp_path, at, when)
    assert done.returncode == -signal.SIGKILL, done.stderr
    names = left_in(tmp_path)
    linked = at > 6 or (at, when) == (6, "after")
    assert (NAME in names) == linked
    if linked:
        assert (tmp_path / NAME).read_bytes() == CONTENT
        assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o444
    rest = [name for name in names if name != NAME]
    assert [path.name for path in receipt.leftovers(tmp_path)] == rest
    begun = (at, when) != (1, "before")
    removed = at > 7 or (at, when) == (7, "after")
    assert len(rest) == (begun and not removed)
    if not linked:
        receipt.write_once(tmp_path / NAME, CONTENT)
        assert left_in(tmp_path) == sorted([*rest, NAME])
        assert (tmp_path / NAME).read_bytes() == CONTENT
    else:
        with pytest.raises(FileExistsError):
            receipt.write_once(tmp_path / NAME, b"other")
        assert (tmp_path / NAME).read_bytes() == CONTENT


def test_the_next_run_names_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, each file once; none is deleted, and --out refuses such a folder by the file's name."""
    home = tmp_path / "checkout" / "receipts" / "runs"
    home.mkdir(parents=True)
    assert python(KILLED, home, 3, "before").returncode == -signal.SIGKILL
    [left] = receipt.leftovers(home)
    monkeypatch.setattr(store, "find_checkout", lambda: tmp_path / "checkout")
    store.open_store(None)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"pp3: found {left}: left by a write that was broken off, or is under way; "
        "it is no receipt and may be deleted\n"
    )
    assert left.is_file()
    with pytest.raises(CampaignError, match=f"already holds 1 files \\({left.name}: left by a write"):
        store.open_store(home)
    left.unlink()
    store.open_store(None)
    assert capsys.readouterr().err == ""


def test_what_was_left_is_no_receipt(tmp_path: Path, real_receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a receipt does not verify, nor does a whole one under the first name."""
    content = real_receipt.read_bytes()
    left = tmp_path / ".writing-0123"
    for kept in (len(content) // 2, len(content)):
        left.write_bytes(content[:kept])
        assert cli.run(["verify", str(left)]) == Exit.NEGATIVE
        assert capsys.readouterr().out.splitlines()[-1].startswith("NOT VERIFIED at ")


def test_a_file_size_limit_leaves_nothing(tmp_path: Path) -> None:
    """A real one, of the kernel: after 50,000 bytes there is no room."""
    done = python(FULL, tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, str(errno.EFBIG)), done.stderr
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("call", CALLS[1:6])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_an_error_of_any_step_leaves_nothing(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write of a part of it, then the error; the error is the one that is told."""
    real: Callable[..., int] = getattr(os, call)
    calls = []

    def failing(*arguments: object) -> int:
        calls.append(call)
        if call == "write" and len(calls) == 1:
            return os.pwrite(int(str(arguments[0])), bytes(10), 0)
        if call == "close":
            real(*arguments)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match=os.strerror(number)) as raised:
        receipt.write_once(tmp_path / NAME, CONTENT)
    monkeypatch.undo()
    assert raised.value.errno == number
    assert left_in(tmp_path) == []


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take less than it is given."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: real(handle, content[:1000]))
    assert receipt.write_once(tmp_path / NAME, CONTENT).read_bytes() == CONTENT


def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    """By the kernel, to a process without privileges; nothing is left."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    folder.chmod(0o555)
    done = python(READ_ONLY, folder)
    assert (done.returncode, done.stdout.strip()) == (0, str(errno.EACCES)), done.stderr
    assert left_in(folder) == []


def test_of_64_racing_processes_one_wins(tmp_path: Path) -> None:
    """Each with other bytes: the file is the winner's, whole, and nothing else is left."""
    done = python(RACE, tmp_path)
    assert done.returncode == 0, done.stderr
    won, refused, winner = map(int, done.stdout.split())
    assert (won, refused) == (1, RIVALS - 1)
    assert left_in(tmp_path) == [NAME]
    assert (tmp_path / NAME).read_bytes() == bytes([winner]) * 70_000


def test_check_of_a_ledger_names_what_was_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside committed receipts too."""
    folder = tmp_path / "receipts" / "evidence" / "qualify"
    folder.mkdir(parents=True)
    assert python(KILLED, folder, 3, "before").returncode == -signal.SIGKILL
    given = ["ledger", "check", "--ledger", str(tmp_path / "receipts" / "LEDGER"), "--json"]
    assert cli.run(given) == Exit.NEGATIVE
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert problem == f"{receipt.leftovers(folder)[0].name} was left by a write that was broken off; it is no receipt"
