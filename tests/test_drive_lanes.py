"""Where pieces run: a GPU a lane, the same sources, and an end with their parent or a signal."""

import os
import select
import signal
import threading
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from driven import ORDERS, taken

from pp3.harness.errors import PP3Error
from pp3.harness.operations import campaign
from pp3.harness.operations.drive import drive
from pp3.harness.operations.engines import gpus, lanes
from pp3.harness.operations.order import ForeignSourcesError, Order, perform, sources_sha256


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is started anew finds the work of this file where pytest has it: as tests.test_drive_lanes."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1]))


def visible(order: Order) -> dict[str, Any]:
    """Which GPU this process may see."""
    return {"name": order["name"], "gpu": os.environ.get("CUDA_VISIBLE_DEVICES", "unset")}


def test_each_lane_has_its_gpu() -> None:
    """As CUDA_VISIBLE_DEVICES, before anything can have asked for it."""
    found = taken(lanes(["GPU-a", "GPU-b"]), ORDERS, visible)
    assert {part["gpu"] for part in found.values()} == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(("wanted", "code"), [("none", 2), ("0", 2), ("-1", 2), ("1.5", 2), ("all", 69), ("2", 69)])
def test_gpus_that_are_not_there(wanted: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is run."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(PP3Error, match=f"--gpus '?{wanted}") as raised:
        gpus(wanted)
    assert raised.value.exit_code == code


@pytest.mark.parametrize(("named", "wanted", "found"), [("", "all", ["0", "1"]), ("3,GPU-x", "1", ["3"])])
def test_gpus_are_named_as_the_driver_takes_them(
    named: str, wanted: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By number, or as CUDA_VISIBLE_DEVICES names them."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert gpus(wanted) == found


def test_a_worker_with_other_sources_refuses() -> None:
    """By digest, before it does anything."""
    manifest = {"kind": "qualify", "sourcesSha256": "0" * 64}
    with pytest.raises(
        ForeignSourcesError,
        match=f"this worker: its sources hash to {sources_sha256('qualify')}, those of the campaign to 000",
    ):
        perform({"manifest": manifest, "name": "x"})


def test_processes_end_with_their_parent(tmp_path: Path) -> None:
    """SIGKILL of the parent leaves no worker behind."""
    context = get_context("spawn")
    process = context.Process(target=_parent, args=(str(tmp_path),))
    process.start()
    deadline = time.monotonic() + 30
    while not (pids := [int(path.name) for path in tmp_path.iterdir()]) and time.monotonic() < deadline:
        process.join(0.05)
    assert pids
    end = os.pidfd_open(pids[0])
    process.kill()
    process.join()
    assert select.select([end], [], [], 30)[0] == [end]
    os.close(end)


def _parent(folder: str) -> None:
    drive({"x": {"name": "x", "folder": folder}}, lanes([""]), lambda part: None, work=_wait)


def _wait(order: Order) -> dict[str, Any]:
    (Path(order["folder"]) / str(os.getpid())).touch()
    threading.Event().wait()
    return {}


def test_sigterm_ends_a_campaign_where_ctrl_c_is_ignored() -> None:
    """As a shell leaves it for what it runs with `&`: SIGINT is ignored, and SIGTERM alone can end it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), campaign.terminated():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
