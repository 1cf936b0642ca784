"""How work grows with its size, without a limit in seconds: those would speak of the machine."""

import math
import time
from collections.abc import Callable
from typing import Final

_ENOUGH: Final = 1.0  # seconds of calls of one size


def growth(work: Callable[[int], object], size: int, *, times: int = 8) -> float:
    """The power of the size by which a call's processor time grows: 1 where it is linear, 2 where it is quadratic.

    The least of five calls counts, of either size in turn, so that what else the processor does matters little: it
    does so less the longer a call takes, and two calls of a second are enough.
    """
    seconds: dict[int, list[float]] = {size: [], times * size: []}
    for _ in range(5):
        for each, taken in seconds.items():
            if len(taken) < 2 or sum(taken) < _ENOUGH:
                begun = time.process_time()
                work(each)
                taken.append(time.process_time() - begun)
    small, large = (max(min(taken), 1e-4) for taken in seconds.values())
    return math.log(large / small) / math.log(times)
