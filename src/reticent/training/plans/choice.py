"""Batch, epochs, learning rate and averaging of private training, chosen from public facts alone.

    batch            units / k for the whole k that comes nearest to 6 · √units, at least 32
    epochs           4
    learning rate    3e-3 for models of up to 10 million trained weights, 1e-3 for larger or unknown ones
    average          of the weights over the last half of the steps

Noise is added to a sum and shrinks with the batch that the sum is divided by, so large batches help until too few
steps are left. Another pass costs little extra noise if the noise is calibrated to the whole run. Averaging is
post-processing and reduces the noise in the weights. The constants are rules of thumb that no guarantee rests on,
tried on few dialogues with a model of one million weights; `bench/utility.py` measures them. The number of units is
public by assumption of every private plan, and the size of the model reveals nothing about the corpus.
"""

import math
from dataclasses import dataclass
from typing import Final

EPOCHS: Final = 4.0
TAIL: Final = 0.5
_BATCH_FACTOR: Final = 6.0
_LEAST_BATCH: Final = 32
SMALL_MODEL: Final = 10_000_000
_RATE: Final = 3e-3
_CAREFUL_RATE: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a private run goes about its steps."""

    batch: int
    epochs: float
    learning_rate: float
    average_tail: float


def choose(units: int, *, parameters: int | None = None) -> Choice:
    """The choice for so many records or owners and so many trained weights (None: not known)."""
    wanted = max(_LEAST_BATCH, _BATCH_FACTOR * math.sqrt(units))
    batches = max(1, round(units / wanted))  # whole, so that random allocation has batches of the same size
    is_small = parameters is not None and parameters <= SMALL_MODEL
    return Choice(
        batch=math.ceil(units / batches),
        epochs=EPOCHS,
        learning_rate=_RATE if is_small else _CAREFUL_RATE,
        average_tail=TAIL,
    )
