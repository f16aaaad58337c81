"""Hold Ctrl-C back while something starts that cannot be stopped half-way.

A signal mask covers one thread, and numeric libraries have their own: so the handler itself is replaced.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_until_released() -> Iterator[Callable[[], None]]:
    """Give a function that ends the hold; an interrupt that came meanwhile is raised then, or at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, note)

    def release() -> None:
        signal.signal(signal.SIGINT, before)
        if came:
            came.clear()
            raise KeyboardInterrupt

    try:
        yield release
    finally:
        release()
