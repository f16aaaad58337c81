"""A trial spread over processes: parts of about equal size, slots dealt to the GPUs, one progress."""

import threading
from typing import Any

import pytest

from pp3.harness.trial import process
from pp3.harness.trial.spread import dealt, slot, slots_for, summed


def test_parts_are_of_about_equal_size_and_hold_each_target_once() -> None:
    sizes = {"a": 13, "b": 7, "c": 4, "d": 4, "e": 4, "f": 2}
    assert dealt(sizes, 3) == [["a"], ["b", "e"], ["c", "d", "f"]]
    assert dealt(sizes, 1) == [list(sizes)]
    assert dealt(sizes, 64) == [[name] for name in sizes]


def test_progress_of_parts_is_that_of_the_whole() -> None:
    heard: list[tuple[str, int, int]] = []
    of_part = summed(lambda *said: heard.append(said), 100)
    one, other = of_part(0), of_part(1)
    one("mine", 10, 60)
    other("mine", 5, 40)
    one("mine", 60, 60)
    assert heard == [("mine", 10, 100), ("mine", 15, 100), ("mine", 65, 100)]


def test_no_process_starts_without_a_slot() -> None:
    stop = threading.Event()
    slots = slots_for(1)
    with slot(slots, stop):
        stop.set()
        with pytest.raises(KeyboardInterrupt), slot(slots, stop):
            pytest.fail("two in one slot")
    with slot(slots, stop):
        pass


def test_slots_are_dealt_to_the_gpus_in_turn() -> None:
    slots = slots_for(5, ["2", "7"])
    assert [slots.get() for _ in range(5)] == ["2", "7", "2", "7", "2"]
    assert [slots_for(1).get()] == [""]


def test_a_process_sees_the_gpu_of_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with none named, what its parent sees."""
    seen: list[str | None] = []

    class StartedError(Exception):
        """Far enough."""

    def popen(*what: Any, env: dict[str, str], **how: Any) -> None:
        seen.append(env.get("CUDA_VISIBLE_DEVICES"))
        raise StartedError

    monkeypatch.setattr("subprocess.Popen", popen)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    order: Any = None
    for gpu in ("", "1"):
        with pytest.raises(StartedError):
            process.run(order, lambda *said: None, threading.Event(), gpu)
    assert seen == ["0,1", "1"]


def test_progress_is_handed_on() -> None:
    heard: list[tuple[Any, ...]] = []
    message = b'{"type":"progressed","stage":"mine","done":3,"total":9}'
    assert process._hear(message, process.Heard(), lambda *said: heard.append(said))
    assert heard == [("mine", 3, 9)]
