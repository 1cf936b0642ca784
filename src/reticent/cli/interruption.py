"""Ctrl-C as a request: long work finishes its step, saves, and stops; a second Ctrl-C stops at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, the first SIGINT or SIGTERM makes the given function return True; the next SIGINT interrupts."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread alone
        yield asked.is_set
        return

    def ask(number: int, _: FrameType | None) -> None:
        if asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
