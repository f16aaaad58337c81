"""Ctrl-C that comes while workers start is kept and raised, never lost and never early."""

import os
import signal
import threading

import pytest

from pp3.harness.interrupts import held_until_released


def test_an_interrupt_waits_for_the_release() -> None:
    """It is raised by the release, with the old handler back in place."""
    before = signal.getsignal(signal.SIGINT)
    reached: list[str] = []

    def start() -> None:
        with held_until_released() as release:
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("held")
            release()
            reached.append("never")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == ["held"]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_without_a_release_is_raised_at_the_end() -> None:
    """Nothing is lost."""
    reached: list[str] = []

    def start() -> None:
        with held_until_released():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("held")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == ["held"]


def test_after_the_release_an_interrupt_is_at_once() -> None:
    """As if nothing had been held."""

    def start() -> None:
        with held_until_released() as release:
            release()
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        start()


def test_a_thread_is_left_alone() -> None:
    """Handlers belong to the main thread."""
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with held_until_released() as release:
            release()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
