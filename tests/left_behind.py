"""What a process that was ended left running."""

import time
from pathlib import Path

import pytest


def wait_until_gone(pid: int) -> None:
    """Until a process is dead; a zombie that nobody reaps here counts as dead."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "ZX":
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} still runs")
