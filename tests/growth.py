"""How work grows with its size, without a limit in seconds: those would speak of the machine."""

import math
import time
from collections.abc import Callable


def growth(work: Callable[[int], object], size: int, *, times: int = 8) -> float:
    """The power of the size by which a call's processor time grows: 1 where it is linear, 2 where it is quadratic.

    The least of five calls counts, of either size in turn, so that what else the processor does matters little.
    """
    seconds: dict[int, float] = {size: math.inf, times * size: math.inf}
    for _ in range(5):
        for each in seconds:
            begun = time.process_time()
            work(each)
            seconds[each] = min(seconds[each], time.process_time() - begun)
    small, large = (max(each, 1e-4) for each in seconds.values())
    return math.log(large / small) / math.log(times)
