"""A cycle of correlated noise costs what one sampled Gaussian step costs (`training.plans.bands` has the reason).

A unit takes part in one release of a cycle at most, with the event's sampling rate, and moves the cycle by a column
of norm 1 at most. That is proved of one unit: several have no tight price together.
"""

from typing import Final

from reticent.accounting.prices.price import Price
from reticent.accounting.prices.sampled_gaussian import SAMPLED_GAUSSIAN
from reticent.core.event import BandedCycle, SampledGaussian


def _step(event: BandedCycle) -> SampledGaussian:
    return SampledGaussian(event.noise_multiplier, event.sampling_rate)


BANDED_CYCLE: Final = Price(
    BandedCycle,
    renyi=lambda event, order, neighbours: SAMPLED_GAUSSIAN.renyi(_step(event), order, neighbours),
    simplest=_step,
)
