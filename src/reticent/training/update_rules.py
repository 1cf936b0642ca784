"""The choices of an optimiser by name, apart from its code: settings name them without importing torch."""

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
