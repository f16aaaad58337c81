"""Files that are written whole or not at all, and never replaced: a temporary file, fsync, link."""

import os
import secrets
from pathlib import Path

WRITING = ".writing-"  # begins the name of a file until it is whole


def write_once(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all. FileExistsError if it exists, OSError if it cannot be written.

    Killed at any moment it leaves no file of this name, or the whole one, and perhaps one that `leftovers` names.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{WRITING}{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.chmod(temporary, 0o444)
        os.link(temporary, path)
    finally:
        os.unlink(temporary)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path


def leftovers(folder: Path) -> list[Path]:
    """Files of a folder that a write broken off has left, or one under way is making; none is a receipt."""
    return sorted(folder.glob(f"{WRITING}*")) if folder.is_dir() else []
