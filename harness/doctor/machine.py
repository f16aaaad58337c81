"""Tools, folders, memory and clock of this machine. A folder is named by the variable that says where it is."""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pp3.harness.doctor.line import Line, fine, note, problem
from pp3.harness.paths import find_checkout

GIB = 1 << 30
LEAST_FREE, SMALL_FREE = 1 * GIB, 5 * GIB
LEAST_SHARED = 64 << 20  # pages and buffers of the wire
CACHE = "TRITON_CACHE_DIR"
SHARED = Path("/dev/shm")
TOOLS = {  # what needs each, and what brings it
    "flock": ("pp3_locked.sh", "apt-get install util-linux"),
    "tmux": ("pp3_locked.sh --detach", "apt-get install tmux"),
    "git": ("nothing but a look at a checkout", "apt-get install git"),
    "ssh-keygen": ("pp3 sign", "apt-get install openssh-client"),
}


def lines(gpu: bool, environment: Mapping[str, str] = os.environ) -> Iterator[Line]:
    """Folders, tools, lock, memory, clock; `gpu` says that kernels are compiled here, and not only interpreted."""
    yield cache(gpu, environment)
    yield scratch()
    yield from (tool(name, environment) for name in TOOLS)
    yield lock(environment)
    yield shared_memory()
    yield clock()


def cache(gpu: bool, environment: Mapping[str, str]) -> Line:
    """Triton's cache of compiled kernels: where, how large, and whether it can be written."""
    name = "triton cache"
    given = environment.get(CACHE)
    folder = (
        Path(given) if given else Path(environment.get("TRITON_HOME", environment.get("HOME", "/"))) / ".triton/cache"
    )
    where = (
        f"${CACHE}" if given else "$TRITON_HOME/.triton/cache" if "TRITON_HOME" in environment else "~/.triton/cache"
    )
    bad = problem if gpu else note
    fix = f"export {CACHE}=$(mktemp -d)"
    why = _unwritable(folder)
    if why:
        return bad(name, f"{where} cannot be written ({why}): every kernel is compiled anew, or not at all", fix)
    if not folder.is_dir():
        return fine(name, f"{where}, not made yet")
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return fine(name, f"{where}, {size / (1 << 20):,.0f} MiB in {len(files):,} files")


def _unwritable(folder: Path) -> str:
    """Why nothing can be written below a folder, which may not be there yet; "" if something can."""
    try:
        there = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as error:
        return os.strerror(error.errno or errno.EIO)


def scratch() -> Line:
    """Room where a run keeps what it has not finished."""
    name = "free disk"
    fix = "export TMPDIR=$(mktemp -d -p FOLDER), with a FOLDER that has room"
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        return problem(name, "no folder for temporary files can be written", fix)
    root = find_checkout()
    places = {"temporary files": folder} | ({"the checkout": root} if root else {})
    rooms = {what: shutil.disk_usage(place).free for what, place in places.items()}
    said = ", ".join(f"{free / GIB:,.1f} GiB for {what}" for what, free in rooms.items())
    if min(rooms.values()) < LEAST_FREE:
        return problem(name, f"{said}; a campaign wants {LEAST_FREE / GIB:.0f}", fix)
    return note(name, f"{said}: little", fix) if min(rooms.values()) < SMALL_FREE else fine(name, said)


def tool(name: str, environment: Mapping[str, str]) -> Line:
    """A program that something needs, and no campaign on a CPU does."""
    needs, fix = TOOLS[name]
    if shutil.which(name, path=environment.get("PATH", "")):
        return fine(name, "found")
    return note(name, f"missing, and {needs} needs it", fix)


def lock(environment: Mapping[str, str]) -> Line:
    """Whether somebody holds the lock of pp3_locked.sh; it is not taken."""
    name, path = "lock", Path(environment.get("PP3_LOCK", "/tmp/pp3.lock"))
    where = "$PP3_LOCK" if "PP3_LOCK" in environment else str(path)
    if not path.exists():
        return fine(name, f"{where}: free, never taken on this machine")
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return note(name, f"{where}: held, a run is under way", "pp3 status DIR")
    except OSError as error:
        fix = f"export PP3_LOCK=FILE, or let its owner run  chmod a+r {where}"
        return note(name, f"{where} cannot be read ({os.strerror(error.errno or errno.EIO)})", fix)
    return fine(name, f"{where}: free")


def shared_memory() -> Line:
    """Room for pages and buffers of the wire."""
    name = "shared memory"
    fix = "mount -o remount,size=1G /dev/shm"
    if not SHARED.is_dir() or _unwritable(SHARED):
        return note(name, f"{SHARED} cannot be written: --proxy process does not run", fix)
    free = shutil.disk_usage(SHARED).free
    said = f"{free / (1 << 20):,.0f} MiB free in {SHARED}"
    return fine(name, said) if free >= LEAST_SHARED else note(name, f"{said}: --proxy process may not run", fix)


def clock() -> Line:
    """The clock of receipts: it must not lie before what it has measured already, nor go backwards."""
    name, root, now = "clock", find_checkout(), time.gmtime()
    said = time.strftime("%Y-%m-%d %H:%M:%S UTC", now)
    stamps = [path.name[:16] for path in (root / "receipts").glob("*/*/*.json")] if root else []
    last = max(stamps, default="")
    if last > time.strftime("%Y%m%dT%H%M%SZ", now):
        return note(name, f"{said} lies before the newest receipt, {last}", "date -u -s 'YYYY-MM-DD HH:MM:SS'")
    return fine(name, said)
