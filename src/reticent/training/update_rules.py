"""The choices of an optimiser by name and the place of a step, apart from its code: nothing here imports torch."""

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """How a gradient moves a weight."""

    ADAMW = "adamw"
    SGD = "sgd"
    CORRECTED_ADAM = "corrected-adam"


class Decay(StrEnum):
    """What happens to the learning rate after the warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A step's place in a phase of the run that has a schedule, an average and an optimiser state of its own."""

    step: int  # from 0
    steps: int
    learning_rate: float | None = None  # None: that of the run
    is_new: bool = False  # whether the optimiser starts anew with this step
