"""How long a key waits to hear that it asks for too much.

A refusal is cheap, yet a client that asks again at once, on hundreds of connections, would keep the server busy
with refusals alone while other keys wait for their answers. So the first refusals of a key come at once and later
ones more slowly: a leaky bucket of `RATE` a second.
"""

import time
from collections.abc import Callable
from typing import Final

RATE: Final = 20.0  # refusals a second
AT_ONCE: Final = 20  # refusals that nobody waits for
LONGEST: Final = 5.0  # seconds that a refusal waits at most


class Pace:
    """When refusals of each key are due."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}  # by key, when the bucket is empty

    def delay(self, key: str) -> float:
        """Seconds that the next refusal of a key waits."""
        now = self._clock()
        self._due = {each: due for each, due in self._due.items() if due > now}
        full = now + AT_ONCE / RATE
        due = min(self._due.get(key, now) + 1.0 / RATE, full + LONGEST)
        self._due[key] = due
        return max(0.0, due - full)
