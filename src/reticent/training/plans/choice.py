"""Batch, epochs and learning rate of private training, chosen from public facts alone.

                     up to 10 million trained weights             more, or unknown
    epochs           12 for up to 2,000 units, then 12 · √(2,000 / units), at least 4 (redacted training: 4)
                     × ε/2 where ε > 2, up to 4 times, within 24,000 passes over single units
    batch            what leaves about 144 steps,                 what leaves about 72 steps, at most 6 · √units,
                     at most 6 · √units                           × the same factor if passes are
                                                                  (redacted training of any size: 6 · √units)
    learning rate    3e-3; adapters of a small model 5e-3,        7e-4
                     of a large one 2e-3
                     (redacted training: 3e-3)                    (redacted training: 1e-3)

The batch is at least 8, or all units. Noise is calibrated to the whole run, so another pass costs little extra
noise, and a smaller batch has more noise in each of more steps, which averages out over them. With equal passes
about 144 steps were better than 12, 36 and 72 for the embedded model (100 to 1,500 texts of 24 tokens, ε = 2 and
8), and 300 were better still in one of three cases; for LoRA on stories15m 80 beat 20 and 40, and 110 beat 12. For
all 15 million weights of stories15m, where the noise of a step grows with the weights, 72 steps in 12 passes beat
36 and 144, and 12 steps in 4 (300 texts of newsgroups, ε = 2; at ε = 8 72 beat 36, and 36 beat 12). For
redacted training, whose noisy steps go on from weights that public steps taught, batches of 42 were worse than of
128. A large ε needs larger samples: where the noise is below about twice the clip norm, sampling hides a unit
badly, and most of what ε would allow is lost. At ε = 8 and 144 steps, a third of the units in each step have 31 %
less noise than a twelfth (300 units); at ε = 2 it is 7 %. So few units get more passes: with 48 of them all weights
of stories15m had 5.59 nats at ε = 8 in 144 steps and 5.55 in 72, with 12 they had 5.68 (newsgroups). A large model
needs those larger samples in as few steps as before: 144 steps of batch 100 had .127 nats on CustomerSim, where 72
of batch 50 had .110.

The weights are those after the last step. Noisy steps hardly come to rest: an average over their last half lags
behind, and lost more by that than it gained by less noise (embedded model on newsgroups, ε = 1, 2 and 8);
adapters and large models gained by it only at higher rates than these, which were worse all the same. An
adapter's rate follows the model that it is on: one step moves the model by about half of what its own rate
would. The constants are rules of thumb that no guarantee rests on; `bench/utility.py` measures them. The number
of units is public by assumption of every private plan, and the size of the model reveals nothing about the
corpus.
"""

import math
from dataclasses import dataclass
from typing import Final

_EPOCHS: Final = (4.0, 12.0)
_FEW_UNITS: Final = 2_000
_SMALL_EPSILON, _MOST_FACTOR = 2.0, 4.0
_STEPS, _STEPS_OF_LARGE = 144, 72
_LEAST_BATCH: Final = 8
_BATCH_FACTOR: Final = 6.0
SMALL_MODEL: Final = 10_000_000
PUBLIC_BATCH: Final = 16  # records of a step on public text alone, unless another number is asked for
_RATE: Final = 3e-3
_ADAPTER_RATE: Final = 5e-3
_CAREFUL_ADAPTER_RATE: Final = 2e-3
_CAREFUL_RATE: Final = 7e-4
_CAREFUL_RATE_OF_REDACTED: Final = 1e-3


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Weights that are trained, and those of the whole model (None: not known)."""

    trained: int | None = None
    whole: int | None = None
    trains_adapters: bool = False


UNKNOWN: Final = ModelSize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a private run goes about its steps."""

    batch: int
    epochs: float
    learning_rate: float


def choose(
    units: int,
    *,
    size: ModelSize = UNKNOWN,
    epsilon: float | None = None,
    epochs: float | None = None,
    is_redacted: bool = False,
) -> Choice:
    """The choice for so many records or owners, a model of this size and a target ε (None: not known).

    `epochs` are those that were asked for, if any were.
    """
    is_small = _is_small(size.trained)
    least, most = _EPOCHS
    usual = least if is_redacted else max(least, min(most, most * math.sqrt(_FEW_UNITS / units)))
    if epochs is None:
        wanted = usual
        if not is_redacted and epsilon is not None:
            factor = max(1.0, min(_MOST_FACTOR, epsilon / _SMALL_EPSILON))
            wanted = max(usual, min(factor * usual, most * _FEW_UNITS / units))
        epochs = float(round(wanted))
    batch = _BATCH_FACTOR * math.sqrt(units)
    if not is_redacted and is_small:
        batch = min(batch, epochs * units / _STEPS)
    elif not is_redacted:
        more = max(1.0, min(_MOST_FACTOR, epochs / usual))
        batch = min(more * batch, epochs * units / _STEPS_OF_LARGE)
    batch = max(_LEAST_BATCH, batch)
    batches = max(1, round(units / batch))  # whole: random allocation has batches of the same size
    if is_redacted:
        rate = _RATE if is_small else _CAREFUL_RATE_OF_REDACTED
    elif is_small:
        rate = _rate_of_adapters(size) if size.trains_adapters else _RATE
    else:
        rate = _CAREFUL_RATE
    return Choice(batch=math.ceil(units / batches), epochs=epochs, learning_rate=rate)


def _rate_of_adapters(size: ModelSize) -> float:
    return _ADAPTER_RATE if _is_small(size.whole) else _CAREFUL_ADAPTER_RATE


def _is_small(parameters: int | None) -> bool:
    return parameters is not None and parameters <= SMALL_MODEL
