"""One try of one piece, as a worker of any engine makes it: one thread, progress now and then, errors without text.

An exception does not travel: its message may quote a corpus, and its class may not be there on the other side. What
travels is an `Attempt`: a result, or a reason in words of ours.
"""

import os
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reticent.core.errors import ReticentError, UsageError
from reticent.engine.work import Told, Work

_SECONDS: Final = 0.2  # between two messages of progress
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True, repr=False)
class Attempt:
    """What became of a try. `told` is its progress in all; `is_final`: another try would end the same way."""

    result: Any = None
    told: int = 0
    reason: str = ""
    hint: str | None = None
    is_final: bool = False


def use_one_thread() -> None:
    """Numerical libraries that are loaded from now on, and torch even if it is loaded, use one thread."""
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def attempt(work: Work, argument: Any, told: Told) -> Attempt:
    """Run one piece; whatever goes wrong is described, never raised."""
    use_one_thread()
    teller = _Seldom(told)
    try:
        result = work(argument, teller)
    except UsageError as error:
        return Attempt(reason=error.line(), hint=error.hint, is_final=True)
    except ReticentError as error:
        return Attempt(reason=str(error), is_final=True)
    except Exception as error:
        return Attempt(reason=_described(error))
    teller.flush()
    return Attempt(result, told=teller.total)


def _described(error: Exception) -> str:
    """Type and place: a message of another library may quote what it was given."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


class _Seldom:
    """Adds up what is told and passes it on a few times a second: a step may take a millisecond."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._amount = self.total = 0
        self._last = time.monotonic()

    def __call__(self, amount: int) -> None:
        self._amount += amount
        self.total += amount
        if time.monotonic() - self._last >= _SECONDS:
            self.flush()

    def flush(self) -> None:
        """Pass on what is left."""
        if self._amount:
            self._told(self._amount)
        self._amount = 0
        self._last = time.monotonic()
